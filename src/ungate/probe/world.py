"""The ranks of one candidate: a child each, asked together over a socket, ended together when one of them fails."""

from __future__ import annotations

import contextlib
import json
import selectors
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ungate.errors import Refusal
from ungate.host.children import Child, tail
from ungate.probe import leftovers
from ungate.probe.records import State

__all__ = ["Failure", "World"]

_LOOK_S = 0.1
_AFTER_FAILURE_S = 1.0  # in which the other ranks may say what they know
_LOG_MOST = 64 << 20  # bytes that a rank may print
_LINES = 20
_ADDRESS_MOST = 100  # bytes of a socket's path: sun_path of unix(7) holds 108
Start = Callable[[int, Path], tuple[Sequence[str], Mapping[str, str]]]
"""The command and environment of a rank, given its number and the path of the socket."""


class Failure(Exception):
    """A candidate that cannot go on: how, a whole sentence, and the last lines of the rank that it is about."""

    def __init__(self, state: State, reason: str, log: tuple[str, ...] = ()) -> None:
        super().__init__(reason)
        self.state, self.reason, self.log = state, reason, log


class World:
    """Started by :meth:`start`; :meth:`stop` leaves nothing behind, whatever happened. A context manager."""

    def __init__(self, ranks: int, folder: Path) -> None:
        self.ranks, self._folder = ranks, folder
        self._children: list[Child] = []
        self._lines: dict[int, socket.socket] = {}
        self._read: dict[int, bytes] = {}
        self._ended: set[int] = set()
        self._stopped = False
        self._memory: set[str] = set()
        self.notes: list[str] = []

    def start(self, start: Start, deadline_s: float) -> None:
        """Start every rank and wait until each has connected. Raises Failure."""
        address = self._folder / "s"
        if len(str(address)) > _ADDRESS_MOST:
            raise Refusal(
                f"The folder for temporary files, {self._folder.parent}, has too long a path for a socket.",
                "Name a shorter one: export TMPDIR=/tmp",
            )
        with socket.socket(socket.AF_UNIX) as door:
            door.bind(str(address))
            door.listen(self.ranks)
            door.settimeout(_LOOK_S)
            for rank in range(self.ranks):
                words, env = start(rank, address)
                self._children.append(Child.start(words, log=self._log(rank), env=env, cwd=self._folder))
            end = time.monotonic() + deadline_s
            while len(self._lines) < self.ranks:
                with contextlib.suppress(TimeoutError):
                    line, _ = door.accept()
                    line.settimeout(_LOOK_S)
                    self._greet(line, end)
                self._watch(
                    "starting", {rank for rank in range(self.ranks) if rank not in self._lines}, end, deadline_s
                )

    def _greet(self, line: socket.socket, end: float) -> None:
        text = b""
        while not text.endswith(b"\n") and time.monotonic() < end:
            with contextlib.suppress(TimeoutError):
                part = line.recv(1 << 16)
                if not part:
                    return  # it ended at once; whoever watches the children says so
                text += part
        if text.endswith(b"\n"):
            rank = json.loads(text)["rank"]
            self._lines[rank], self._read[rank] = line, b""

    def ask(self, request: Mapping[str, object], deadline_s: float, doing: str) -> list[dict[str, Any]]:
        """Ask every rank the same and return their answers in order of rank.

        Raises Failure when one ends, says that it failed or is unavailable, or has not answered in time. ``doing`` is
        what they do, for the sentence.
        """
        end = time.monotonic() + deadline_s
        waiting = set(self._lines)
        answers: dict[int, dict[str, Any]] = {}
        with selectors.DefaultSelector() as selector:
            for rank, line in self._lines.items():
                with contextlib.suppress(OSError):  # a rank that has ended is told by its child
                    line.sendall(json.dumps(request).encode() + b"\n")
                selector.register(line, selectors.EVENT_READ, rank)
            while waiting:
                for key, _ in selector.select(_LOOK_S):
                    text = self._received(key.data)
                    if text is not None:
                        answers[key.data] = json.loads(text)
                        waiting.discard(key.data)
                    elif not self._alive(key.data):
                        selector.unregister(key.fileobj)
                if any("failed" in answer or "unavailable" in answer for answer in answers.values()):
                    end = min(end, time.monotonic() + _AFTER_FAILURE_S)
                    if waiting and time.monotonic() < end and all(map(self._alive, waiting)):
                        continue
                    break
                if waiting:
                    self._watch(doing, waiting, end, deadline_s)
        if len(answers) < self.ranks or any("failed" in answer for answer in answers.values()):
            self._raise_ended(doing, waiting)  # a rank that crashed is why the others fail
        self._raise_told(answers, doing)
        return [answers[rank] for rank in range(self.ranks)]

    def _received(self, rank: int) -> bytes | None:
        """A whole line of this rank, or None as long as there is none."""
        try:
            part = self._lines[rank].recv(1 << 16)
        except (TimeoutError, OSError):
            return None
        if not part:
            time.sleep(_LOOK_S / 10)  # its end is closed: the child is about to end
            return None
        self._read[rank] += part
        text, newline, rest = self._read[rank].partition(b"\n")
        if not newline:
            return None
        self._read[rank] = rest
        return text

    def _raise_told(self, answers: Mapping[int, Mapping[str, Any]], doing: str) -> None:
        for answer in answers.values():
            if "unavailable" in answer:
                raise Failure(State.UNAVAILABLE, str(answer["unavailable"]))
        for rank, answer in sorted(answers.items()):
            if "failed" in answer:
                raise Failure(State.FAILED, f"Rank {rank} failed while {doing}: {answer['failed']}", self._last(rank))

    def _alive(self, rank: int) -> bool:
        return self._children[rank].poll() is None

    def _raise_ended(self, doing: str, waiting: set[int]) -> None:
        """Failure for a rank that has ended; one that ended well may still have an answer on its way."""
        for rank, child in enumerate(self._children):
            code = child.poll()
            if code is None or (code == 0 and rank not in waiting):
                continue
            if code == 0 and rank not in self._ended:
                self._ended.add(rank)
                continue
            how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
            raise Failure(State.CRASHED, f"Rank {rank} {how} while {doing}.", self._last(rank))

    def _watch(self, doing: str, waiting: set[int], end: float, deadline_s: float) -> None:
        """Failure for a rank that has ended, prints without end or is late."""
        self._raise_ended(doing, waiting)
        for rank in range(len(self._children)):
            if self._log(rank).stat().st_size > _LOG_MOST:
                raise Failure(
                    State.CRASHED,
                    f"Rank {rank} was ended while {doing}, because it printed more than {_LOG_MOST >> 20} MiB.",
                    self._last(rank),
                )
        if time.monotonic() > end:
            late = ", ".join(map(str, sorted(waiting)))
            raise Failure(
                State.HUNG,
                f"It hung within {deadline_s:g} s while {doing}: no answer from rank {late}.",
                self._last(min(waiting)),
            )

    def look(self) -> None:
        """Remember what the ranks have in shared memory, so that it can be removed after they were killed."""
        self._memory |= leftovers.mapped(pid for child in self._children for pid in child.members())

    def _log(self, rank: int) -> Path:
        return self._folder / f"log-{rank}"

    def _last(self, rank: int) -> tuple[str, ...]:
        return tuple(tail(self._log(rank)).splitlines()[-_LINES:])

    def end(self, deadline_s: float) -> str:
        """Have the ranks close the candidate and end by themselves; a sentence where they did not."""
        self.look()
        try:
            self.ask({"do": "close"}, deadline_s, "closing")
        except Failure as failure:
            return failure.reason
        end = time.monotonic() + deadline_s
        codes = [child.wait(max(0.0, end - time.monotonic())) for child in self._children]
        late = [rank for rank, code in enumerate(codes) if code is None]
        if late:
            return f"Rank {', '.join(map(str, late))} did not end within {deadline_s:g} s after it had closed."
        return "".join(f"Rank {rank} ended with code {code}. " for rank, code in enumerate(codes) if code).strip()

    def stop(self) -> None:
        """End everything that is left and remove what the ranks had in shared memory; once.

        A process that outlives SIGKILL is told in ``notes``: the other candidates may still be measured.
        """
        if self._stopped:
            return
        self._stopped = True
        for line in self._lines.values():
            line.close()
        with contextlib.suppress(OSError):
            self.look()
        left = sum(len(child.members()) for child in self._children if child.poll() is not None)
        for child in self._children:
            try:
                child.stop(0.0)
            except Refusal as refusal:
                self.notes.append(str(refusal))
        if left:
            self.notes.append(f"It left {left} process{'es' if left > 1 else ''} behind, which ungate ended.")
        if gone := leftovers.remove(self._memory):
            self.notes.append(f"It left {', '.join(gone)} in {leftovers.MEMORY}, which ungate removed.")

    def __enter__(self) -> World:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
