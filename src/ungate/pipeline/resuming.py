"""What makes a run one that can be taken up again: its request in its folder, and a lock while it is alive."""

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
from ungate.pipeline.environment import base_environment
from ungate.pipeline.records import Records, Request
from ungate.record import Ledger, Row

__all__ = ["Begun", "alive", "begun", "choose", "remember", "still_stands"]

_REQUEST, _LOCK = "request.json", "run.lock"


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
    anew = f"Begin it anew: ungate run {row.recipe}"
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
    row_or_none = next((row for row in here if row.status != "completed"), None)
    if row_or_none is None:
        raise Refusal(
            "No run that was begun here waits for more, so there is none to resume.", "See them: ungate ledger"
        )
    return row_or_none


@contextlib.contextmanager
def alive(folder: Path, marker: str) -> Iterator[None]:
    """Hold the run's lock, let every child carry its marker, and first end what an earlier process left running.

    The kernel gives the lock back when the process ends, however it ends. Refusal while another process has it.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(folder / _LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise Refusal(
            f"The run in {folder} is still going on in another process.",
            "Wait for it, or end it there with ctrl-C: what it has finished is kept.",
        ) from None
    before = os.environ.get(MARKER)
    try:
        reap(marker)
        os.environ[MARKER] = ":".join(filter(None, (before, marker)))
        yield
    finally:
        if before is None:
            os.environ.pop(MARKER, None)
        else:
            os.environ[MARKER] = before
        lock.release()


def still_stands(request: Request, records: Records) -> None:
    """Make an overlay that is gone again; Refusal where the packages are not those of the finished steps."""
    there = versions(request.environment)
    for package in records.packages:
        version = there.get(canonical(package.name))
        if version != package.version:
            raise Refusal(
                f"{package.name} is no longer at {package.version} ({version or 'not installed'}), "
                "so what was measured would be of two different things.",
                f"Begin the run anew: ungate run {request.recipe.name}",
            )
    series = records.series
    if series is None:
        return
    from ungate.patch.content import changed
    from ungate.patch.overlay import create

    changed(series, records.packages)  # refuses where a file is not what the series was made for
    create(series, records.packages, cache_dir() / "overlays", base=base_environment(request))
