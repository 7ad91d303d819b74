"""The steps of a run: each is in the ledger before it begins, and its result is kept once it has ended.

A step's result is a file that is put in its place in one go; the ledger then gets the step's status and its samples in
one transaction. So a run that is killed at any moment has, for each step, either its whole result or nothing of it, and
when it is taken up again a step with a result is not carried out a second time.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeVar

from ungate.errors import Refusal, shell
from ungate.host.files import write
from ungate.model import Sample, Task
from ungate.pipeline.codec import pack, revised, unpack
from ungate.pipeline.records import Records
from ungate.record import Ledger, Step

__all__ = ["Journal"]

T = TypeVar("T")

_ROOM = 1000  # steps of one stage


def _none(value: object) -> tuple[Sample, ...]:
    return ()


class Journal:
    """The steps of run ``number``; results are kept below ``folder``."""

    def __init__(self, ledger: Ledger, number: int, folder: Path, stages: Sequence[str]) -> None:
        self._ledger, self._number, self._folder = ledger, number, folder
        self._bases = {stage: place * _ROOM for place, stage in enumerate(stages)}
        # A stage that an earlier process finished does not plan its steps again: they are in the ledger.
        self._steps = {step.name: self._as_kept(step) for step in ledger.planned(number) if step.name}

    def _as_kept(self, step: Step) -> Step:
        """A step with a result is done, whatever became of the process that did it."""
        return replace(step, task=replace(step.task, status="completed")) if self.kept(step.name) else step

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The list of steps as it stands, in order."""
        return tuple(step.task for step in sorted(self._steps.values(), key=lambda step: step.position))

    def plan(self, stage: str, steps: Sequence[tuple[str, Task]], *, after: int = 0) -> None:
        """Write the steps of a stage ahead, in order and below it; one without a name is the stage itself.

        Steps that turn out to be needed later stand ``after`` so many that were planned before.
        A resumed run plans the same steps again: what stands in the ledger stays as it is.
        """
        base = self._bases[stage]
        new = [
            Step(f"{stage}/{name}" if name else stage, base + place, task)
            for place, (name, task) in enumerate(steps, after + 1 if steps and steps[0][0] else 0)
        ]
        self._ledger.plan(self._number, new)
        self._steps |= {step.name: self._as_kept(step) for step in new}

    def once(
        self,
        name: str,
        kind: type[T],
        act: Callable[[], T],
        samples: Callable[[T], Iterable[Sample]] = _none,
    ) -> T:
        """The result of a planned step: carried out now, or read where an earlier process has finished it.

        ``samples`` picks from the result what goes into the ledger with it.
        """
        return self._once(name, act, pack, lambda content: unpack(kind, content), samples)

    def changed(self, name: str, records: Records, act: Callable[[], Records]) -> Records:
        """:meth:`once` for a stage: what is kept are the fields of ``records`` that it changed."""

        def difference(after: Records) -> dict[str, Any]:
            values = {field.name: (getattr(records, field.name), getattr(after, field.name)) for field in fields(after)}
            return {name: pack(new) for name, (old, new) in values.items() if new is not old}

        after = self._once(name, act, difference, lambda content: revised(records, content), _none)
        self.cancel(name)  # what it left out, or was interrupted in before it did
        return after

    def result(self, name: str, kind: type[T]) -> T:
        """What a finished step gave."""
        return self._kept(self._folder / f"{name}.json", lambda content: unpack(kind, content))

    def _once(
        self,
        name: str,
        act: Callable[[], T],
        form: Callable[[T], Any],
        read: Callable[[Any], T],
        samples: Callable[[T], Iterable[Sample]],
    ) -> T:
        step = self._steps[name]
        place = self._folder / f"{name}.json"
        if place.exists():
            value = self._kept(place, read)
        else:
            self.mark(name, "in_progress")
            try:
                value = act()
            except KeyboardInterrupt:
                self.mark(name, "cancelled")
                raise
            except BaseException:
                self.mark(name, "failed")
                raise
            write(place, json.dumps(form(value)).encode())
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

    def cancel(self, stage: str) -> None:
        """Mark a stage that is left out, with every step of it."""
        for name, step in tuple(self._steps.items()):
            if name.partition("/")[0] == stage and step.task.status == "pending":
                self.mark(name, "cancelled")

    def told(self, name: str, status: str) -> tuple[Task, ...]:
        """The list of steps as it will stand when ``name`` has that status."""
        return tuple(
            replace(step.task, status=status) if step.name == name else step.task
            for step in sorted(self._steps.values(), key=lambda step: step.position)
        )

    def _set(self, name: str, status: str) -> None:
        step = self._steps[name]
        self._steps[name] = replace(step, task=replace(step.task, status=status))

    def _kept(self, place: Path, read: Callable[[Any], T]) -> T:
        try:
            return read(json.loads(place.read_bytes()))
        except (OSError, ValueError, TypeError, LookupError) as error:
            raise Refusal(
                f"The result of a finished step at {place} cannot be read: {error}.",
                f"Carry that step out again: rm {shell(place)}; ungate run --resume {self._number}",
            ) from error
