"""Run one operation over and over, killed at another step each time, and see what recover makes of it.

Run as ``python -m tests.patch.killer FOLDER``; prints one JSON object: the points tried, by scenario, and what went
wrong. A process of its own, because it forks for every point.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.patch.faults import Counting, Intruding, Killing, Swift
from tests.patch.site import again, story

from ungate.errors import Refusal
from ungate.host.packages import Package, below
from ungate.model import Gate, Series, Target
from ungate.patch import open_series
from ungate.patch.disk import Disk
from ungate.patch.stack import pop, push, recover_all
from ungate.patch.state import journal_of, read_stack

__all__ = ["main"]

_Files = dict[str, bytes]


@dataclass
class World:
    """One environment with its journal, thrown away and set up again for every point."""

    folder: Path
    packages: tuple[Package, ...]
    gates: tuple[Gate, ...]

    @property
    def site(self) -> Path:
        return self.folder / "venv/lib/python3.11/site-packages"

    @property
    def state(self) -> Path:
        return self.folder / "state"

    def files(self) -> _Files:
        return {str(p.relative_to(self.site)): p.read_bytes() for p in sorted(self.site.rglob("*")) if p.is_file()}

    def stack(self) -> list[str]:
        return [each.name for each in read_stack(journal_of(self.site))]

    def save(self, name: str) -> None:
        for part in ("venv", "state"):
            if (self.folder / part).exists():
                shutil.copytree(self.folder / part, self.folder / f"{name}-{part}")

    def load(self, name: str) -> None:
        for part in ("venv", "state"):
            shutil.rmtree(self.folder / part, ignore_errors=True)
            if (self.folder / f"{name}-{part}").exists():
                shutil.copytree(self.folder / f"{name}-{part}", self.folder / part)


def _series(world: World, name: str, target: int) -> Series:
    return open_series(name, world.gates, Target(target), world.packages)


def _killed(operation: Callable[[Disk], object], number: int, part: str, disk: Disk | None = None) -> bool:
    """Whether the process was killed at the point; False where the operation ended before it."""
    child = os.fork()
    if child == 0:
        try:
            operation(disk or Killing(number, part))
        except BaseException:
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return os.WTERMSIG(status) == signal.SIGKILL
    if os.WEXITSTATUS(status) != 0:
        raise RuntimeError(f"the operation failed by itself at {number} {part}")
    return False


def _points(operation: Callable[[Disk], object]) -> list[tuple[int, str]]:
    disk = Counting()
    operation(disk)
    found = [(number, part) for number in range(1, disk.steps + 1) for part in ("before", "after")]
    return found + [(number, "half") for number in sorted(disk.writes)]


def _scenario(world: World, name: str, start: str, operation: Callable[[Disk], object], wrong: list[str]) -> int:
    """Kill the operation at every point, recover, compare; returns how many points there were."""
    world.load(start)
    before, old = world.files(), world.stack()
    points = _points(operation)
    after, new = world.files(), world.stack()
    assert before != after and old != new
    for number, part in points:
        world.load(start)
        if not _killed(operation, number, part):
            wrong.append(f"{name}: nothing was killed at {number} {part}")
            continue
        recover_all(world.site, disk=Swift())
        state = (world.files(), world.stack())
        if state not in ((before, old), (after, new)):
            odd = sorted(f for f in {*state[0], *before} if state[0].get(f) not in (before.get(f), after.get(f)))
            wrong.append(f"{name}: between two states after {number} {part}: stack {state[1]}, {odd}")
        if recover_all(world.site, disk=Swift()).direction != "nothing":
            wrong.append(f"{name}: recover was not finished after {number} {part}")
    return len(points)


def _recover_scenario(world: World, operation: Callable[[Disk], object], wrong: list[str]) -> int:
    """Kill the operation in its middle, then kill recover at every point of its own, then recover."""
    world.load("clean")
    before = world.files()
    points = _points(operation)
    after = world.files()
    count = 0
    last = max(number for number, _ in points)
    for tenth in range(4, 10):
        middle = last * tenth // 10
        world.load("clean")
        _killed(operation, middle, "after")
        world.save(f"middle{middle}")
        inner = _points(lambda disk: recover_all(world.site, disk=disk))
        for number, part in inner:
            world.load(f"middle{middle}")
            _killed(lambda disk: recover_all(world.site, disk=disk), number, part)
            recover_all(world.site, disk=Swift())
            if world.files() not in (before, after):
                wrong.append(f"recover: between two states after {middle} and {number} {part}")
        count += len(inner)
    return count


def _intruder_scenario(world: World, push_: Callable[[Disk], object], wrong: list[str]) -> int:
    """Somebody else writes a file in the instant before it is exchanged, and the process is killed at every step."""
    text, count = b"theirs\n", 0
    for at in (1, 2, 3):
        world.load("clean")
        before, old = world.files(), world.stack()
        trial = Intruding(at, text)
        try:
            push_(trial)
            wrong.append(f"intruder {at}: was written over")
        except Refusal:
            pass
        assert trial.met is not None
        file = str(trial.met.relative_to(world.site))
        expected = {**before, file: text}
        if (world.files(), world.stack()) != (expected, old):
            wrong.append(f"intruder {at}: the push left something else than the old state and the other's file")
        for number in range(trial.when + 1, trial.steps + 1):
            for part in ("before", "after"):
                world.load("clean")
                _killed(lambda disk: _quiet(push_, disk), number, part, Intruding(at, text, number, part))
                recover_all(world.site, disk=Swift())
                if (world.files(), world.stack()) != (expected, old):
                    wrong.append(f"intruder {at}: after {number} {part} their file is {world.files().get(file)!r}")
                count += 1
    return count


def _quiet(operation: Callable[[Disk], object], disk: Disk) -> None:
    with contextlib.suppress(Refusal):
        operation(disk)


def main(folder: Path) -> dict[str, object]:
    """All scenarios below ``folder``."""
    os.environ["UNGATE_STATE_DIR"] = str(folder / "state")
    world = World(folder, (), ())
    world.packages, world.gates = story(world.site)
    world.save("clean")
    first = _series(world, "first", 120)
    push(first, world.packages, disk=Swift())
    world.save("one")
    world.packages = below(world.site)
    second = open_series("second", again(world.packages), Target(110), world.packages)
    wrong: list[str] = []
    counts = {
        "push": _scenario(world, "push", "clean", lambda disk: push(first, world.packages, disk=disk), wrong),
        "pop": _scenario(world, "pop", "one", lambda disk: pop(world.site, world.packages, disk=disk), wrong),
        "second push": _scenario(
            world, "second push", "one", lambda disk: push(second, world.packages, disk=disk), wrong
        ),
    }
    world.load("one")
    push(second, world.packages, disk=Swift())
    world.save("two")
    counts["second pop"] = _scenario(
        world, "second pop", "two", lambda disk: pop(world.site, world.packages, disk=disk), wrong
    )
    counts["intruder"] = _intruder_scenario(world, lambda disk: push(first, world.packages, disk=disk), wrong)
    counts["recover"] = _recover_scenario(world, lambda disk: push(first, world.packages, disk=disk), wrong)
    return {"points": counts, "wrong": wrong}


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
