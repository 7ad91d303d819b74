"""The steps of a run: each is in the ledger before it begins, and its result is kept once it has ended.

A step's result is a file that is put in its place in one go; the ledger then gets the step's status and its samples in
one transaction. So a run that is killed at any moment has, for each step, either its whole result or nothing of it, and
when it is taken up again a step with a result is not carried out a second time.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from ungate.errors import Refusal
from ungate.host.files import write
from ungate.model import Sample, Task
from ungate.pipeline.codec import pack, unpack
from ungate.record import Ledger, Step

__all__ = ["Journal"]

T = TypeVar("T")


def _none(value: object) -> tuple[Sample, ...]:
    return ()


class Journal:
    """The steps of run ``number``; results are kept below ``folder``."""

    def __init__(self, ledger: Ledger, number: int, folder: Path) -> None:
        self._ledger, self._number, self._folder = ledger, number, folder
        self._steps: dict[str, Step] = {}

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The list of steps as it stands, in order."""
        return tuple(step.task for step in sorted(self._steps.values(), key=lambda step: step.position))

    def plan(self, steps: Sequence[Step]) -> None:
        """Write steps ahead; those that are planned already stay as they are."""
        new = [step for step in steps if step.name not in self._steps]
        self._ledger.plan(self._number, new)
        self._steps |= {step.name: step for step in new}

    def once(
        self,
        name: str,
        kind: type[T],
        act: Callable[[], T],
        samples: Callable[[T], Iterable[Sample]] = _none,
        *,
        before: Callable[[], None] = lambda: None,
    ) -> T:
        """The result of a planned step: carried out now, or read where an earlier process has finished it.

        ``samples`` picks from the result what goes into the ledger with it. ``before`` is called once the step is
        marked as begun and only where it is carried out.
        """
        step = self._steps[name]
        place = self._folder / f"{name}.json"
        if place.exists():
            value = self._kept(place, kind)
        else:
            self.mark(name, "in_progress")
            try:
                before()
                value = act()
            except KeyboardInterrupt:
                self.mark(name, "cancelled")
                raise
            except BaseException:
                self.mark(name, "failed")
                raise
            write(place, json.dumps(pack(value)).encode())
        self._ledger.complete(self._number, step.position, samples(value))
        self._set(name, "completed")
        return value

    def kept(self, name: str) -> bool:
        """Whether an earlier process has finished the step."""
        return (self._folder / f"{name}.json").exists()

    def forget(self, name: str) -> None:
        """Drop a step's result, so that it is carried out again: what it made is no longer there."""
        with contextlib.suppress(FileNotFoundError):
            (self._folder / f"{name}.json").unlink()

    def mark(self, name: str, status: str) -> None:
        """Change the status of a step."""
        self._ledger.step(self._number, self._steps[name].position, status)
        self._set(name, status)

    def told(self, name: str, status: str) -> tuple[Task, ...]:
        """The list of steps as it will stand when ``name`` has that status."""
        return tuple(
            replace(step.task, status=status) if step.name == name else step.task
            for step in sorted(self._steps.values(), key=lambda step: step.position)
        )

    def _set(self, name: str, status: str) -> None:
        step = self._steps[name]
        self._steps[name] = replace(step, task=replace(step.task, status=status))

    def _kept(self, place: Path, kind: type[T]) -> T:
        try:
            content: Any = json.loads(place.read_bytes())
            return unpack(kind, content)
        except (OSError, ValueError, TypeError, LookupError) as error:
            raise Refusal(
                f"The result of a finished step at {place} cannot be read: {error}.",
                f"Carry that step out again: rm {place}; ungate run --resume {self._number}",
            ) from error
