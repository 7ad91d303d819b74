"""What makes a run one that can be taken up again: its request in its folder, and a lock while it is alive.

Its process may be killed; then the next one, whether it takes the run up or begins another, clears up what was left.
"""

from __future__ import annotations

import contextlib
import json
import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import ungate
from ungate.errors import Refusal
from ungate.host.children import MARKER, reap
from ungate.host.files import write
from ungate.host.folders import cache_dir
from ungate.host.packages import canonical, versions
from ungate.judge.interval import Prior
from ungate.pipeline.codec import pack, unpack
from ungate.pipeline.commands import command
from ungate.pipeline.environment import base_environment
from ungate.pipeline.records import Records, Request
from ungate.record import Ledger, Row
from ungate.record.living import LOCK, gone

__all__ = ["Begun", "alive", "begun", "choose", "clear_up", "held", "remember", "still_stands"]

_REQUEST = "request.json"
_LOCK_S = 0.5  # somebody who lists the runs holds a lock for a moment


@dataclass(frozen=True, slots=True)
class Begun:
    """A run as it was begun: what was asked, when (ISO 8601, UTC), and the marker that its processes carry."""

    version: str
    marker: str
    started: str
    number: int
    request: Request
    prior: Prior | None = None
    hypothesis: int | None = None


def remember(
    request: Request, started: str, number: int, *, prior: Prior | None = None, hypothesis: int | None = None
) -> Begun:
    """Write the request into the run's folder, with the prior: a resumed run keeps to the same plan."""
    begun = Begun(ungate.__version__, uuid.uuid4().hex, started, number, request, prior, hypothesis)
    write(request.folder / _REQUEST, json.dumps(pack(begun)).encode())
    return begun


def begun(row: Row) -> Begun:
    """The run of a ledger's row as it was begun; Refusal where it cannot be gone on with."""
    place = Path(row.folder) / _REQUEST
    anew = f"Begin it anew, {row.recipe} being its recipe: ungate run RECIPE"
    if not row.folder:
        raise Refusal(f"Run {row.id} was imported from another machine, so it cannot go on here.", anew)
    try:
        content = json.loads(place.read_bytes())
    except (OSError, ValueError) as error:
        raise Refusal(
            f"Run {row.id} cannot be resumed: its request at {place} cannot be read: {error}.", anew
        ) from error
    made = content.get("version") if isinstance(content, dict) else None
    if made != ungate.__version__:
        raise Refusal(
            f"Run {row.id} was begun by ungate {made}, and its steps may mean something else to {ungate.__version__}.",
            anew,
        )
    try:
        return unpack(Begun, content)
    except (ValueError, TypeError, LookupError) as error:
        raise Refusal(f"Run {row.id} cannot be resumed: {place} does not hold a request: {error}.", anew) from error


def choose(ledger: Ledger, number: int | None) -> Row:
    """The run to take up: the one that is named, else the newest that has not been completed."""
    if number is not None:
        row = ledger.run(number)
        if row.status == "completed":
            raise Refusal(f"Run {number} has been completed.", f"See what came of it: ungate report {number}")
        return row
    # A shared ledger holds runs of other machines too: only one whose folder is here can go on here.
    here = (row for row in ledger.runs() if row.folder and (Path(row.folder) / _REQUEST).is_file())
    waiting = sorted((row for row in here if row.status != "completed"), key=lambda row: row.status == "running")
    row_or_none = next(iter(waiting), None)
    if row_or_none is None:
        raise Refusal(
            "No run that was begun here waits for more, so there is none to resume.", "See them: ungate ledger"
        )
    return row_or_none


@contextlib.contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold the run's lock: it tells a living run from a dead one, since the kernel gives it back however this ends.

    Refusal while another process has it.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(folder / LOCK)
    try:
        lock.acquire(timeout=_LOCK_S)
    except Timeout:
        raise Refusal(
            f"The run in {folder} is still going on in another process.",
            "Wait for it, or end it there with ctrl-C: what it has finished is kept.",
        ) from None
    try:
        yield
    finally:
        lock.release()


@contextlib.contextmanager
def alive(folder: Path, marker: str) -> Iterator[None]:
    """Let every child carry the run's marker, and first clear up what an earlier process left behind."""
    before = os.environ.get(MARKER)
    try:
        _clear(folder, marker)
        os.environ[MARKER] = ":".join(filter(None, (before, marker)))
        yield
    finally:
        if before is None:
            os.environ.pop(MARKER, None)
        else:
            os.environ[MARKER] = before


def _clear(folder: Path, marker: str) -> None:
    """End the processes of a run whose own process is gone, then remove the shared memory of its servers."""
    from ungate.launch.segments import clear

    reap(marker)
    clear(folder)


def clear_up(ledger: Ledger) -> tuple[int, ...]:
    """Clear up after the runs of this machine that were killed, and close them in the ledger; their numbers.

    A run that another process takes up meanwhile is left to that one.
    """
    done = []
    for row in ledger.running():
        if not gone(row.folder):
            continue
        with contextlib.suppress(Refusal), held(Path(row.folder)):
            asked = _asked(Path(row.folder))
            _clear(Path(row.folder), str(asked.get("marker") or uuid.uuid4().hex))
            ledger.end(row.id, "interrupted", reopen=row.reopen)
            if isinstance(hypothesis := asked.get("hypothesis"), int):
                ledger.settle(hypothesis, "pending")
            done.append(row.id)
    return tuple(done)


def _asked(folder: Path) -> dict[str, object]:
    """What stands in the request of a run; nothing where it cannot be read."""
    try:
        asked = json.loads((folder / _REQUEST).read_bytes())
    except (OSError, ValueError):
        return {}
    return asked if isinstance(asked, dict) else {}


def still_stands(request: Request, records: Records) -> None:
    """Make an overlay that is gone again; Refusal where the packages are not those of the finished steps."""
    there = versions(request.environment)
    for package in records.packages:
        version = there.get(canonical(package.name))
        if version != package.version:
            raise Refusal(
                f"{package.name} is no longer at {package.version} ({version or 'not installed'}), "
                "so what was measured would be of two different things.",
                f"Begin the run anew: {command('run', request.recipe, request.environment, request.target)}",
            )
    series = records.series
    if series is None:
        return
    from ungate.patch.content import changed
    from ungate.patch.overlay import create

    changed(series, records.packages)  # refuses where a file is not what the series was made for
    create(series, records.packages, cache_dir() / "overlays", base=base_environment(request))
