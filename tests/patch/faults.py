"""Disks that stop at a given step: by SIGKILL, or with an error of the operating system."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from ungate.patch.disk import Disk, Owner

__all__ = ["Counting", "Failing", "Intruding", "Killing", "Swift"]


class Swift(Disk):
    """A disk that does not wait for the device: a killed process loses nothing that it has written."""

    def _sync(self, handle: int) -> None:
        pass


class Counting(Swift):
    """Counts the steps; :meth:`reached` is told ``before``, ``half`` (of writes) and ``after`` each."""

    def __init__(self) -> None:
        self.steps = 0
        self.writes: set[int] = set()

    def reached(self, part: str) -> None:
        """Nothing happens here."""

    def _enter(self) -> None:
        self.steps += 1
        self.reached("before")

    def folder(self, path: Path) -> None:
        self._enter()
        super().folder(path)
        self.reached("after")

    def write(self, path: Path, data: bytes, owner: Owner | None = None) -> None:
        self._enter()
        self.writes.add(self.steps)
        if self.halfway():
            path.write_bytes(data[: len(data) // 2])
            self.reached("half")
        super().write(path, data, owner)
        self.reached("after")

    def rename(self, source: Path, place: Path) -> None:
        self._enter()
        super().rename(source, place)
        self.reached("after")

    def exchange(self, source: Path, place: Path) -> None:
        self._enter()
        super().exchange(source, place)
        self.reached("after")

    def remove(self, path: Path) -> None:
        self._enter()
        super().remove(path)
        self.reached("after")

    def append(self, path: Path, line: bytes) -> None:
        self._enter()
        self.writes.add(self.steps)
        if self.halfway():
            with path.open("ab") as stream:
                stream.write(line[: len(line) // 2])
            self.reached("half")
        super().append(path, line)
        self.reached("after")

    def halfway(self) -> bool:
        """Whether this write is to stop in its middle."""
        return False


class Killing(Counting):
    """Kills its own process at step ``number``, before it, half through it, or after it."""

    def __init__(self, number: int, part: str) -> None:
        super().__init__()
        self.number = number
        self.part = part

    def reached(self, part: str) -> None:
        if (self.steps, part) == (self.number, self.part):
            os.kill(os.getpid(), signal.SIGKILL)

    def halfway(self) -> bool:
        return (self.steps, "half") == (self.number, self.part)


class Intruding(Killing):
    """Somebody else writes ``place`` right before exchange number ``at``; may be killed at a step as well."""

    def __init__(self, at: int, text: bytes | None, number: int = 0, part: str = "") -> None:
        super().__init__(number, part)
        self.at = at
        self.text = text
        self.exchanges = 0
        self.met: Path | None = None
        self.when = 0

    def exchange(self, source: Path, place: Path) -> None:
        self.exchanges += 1
        if self.exchanges == self.at:
            self.met, self.when = place, self.steps
            place.unlink()
            if self.text is not None:
                place.write_bytes(self.text)
        super().exchange(source, place)


class Failing(Counting):
    """Raises an error at step ``number``, and at every later step that needs room when ``lasting``."""

    def __init__(self, number: int, error: int, *, lasting: bool = False) -> None:
        super().__init__()
        self.number = number
        self.error = error
        self.lasting = lasting
        self._writing = False

    def write(self, path: Path, data: bytes, owner: Owner | None = None) -> None:
        self._writing = True
        super().write(path, data, owner)

    def append(self, path: Path, line: bytes) -> None:
        self._writing = True
        super().append(path, line)

    def reached(self, part: str) -> None:
        writing, self._writing = self._writing, False
        if part != "before":
            return
        if self.steps == self.number or (self.lasting and writing and self.steps > self.number):
            raise OSError(self.error, os.strerror(self.error))
