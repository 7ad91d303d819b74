"""Where the journal of an environment lies, who may use it, and what is applied there."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ungate.errors import Refusal, shell
from ungate.host.folders import state_dir
from ungate.patch.disk import Disk
from ungate.patch.journal import Journal

__all__ = ["Applied", "journal_of", "locked", "read_stack", "write_stack"]

_DEADLINE_S = 60.0


@dataclass(frozen=True, slots=True)
class Applied:
    """One pushed series: ``files`` to their sha256 (before, after), ``packages`` to the versions it was made for."""

    name: str
    digest: str
    target: str
    files: Mapping[str, tuple[str, str]]
    packages: Mapping[str, str]
    at: float = 0.0
    riders: tuple[int, ...] = field(default=())


def journal_of(root: Path, disk: Disk | None = None) -> Journal:
    """The journal of the packages' folder ``root``; one a user, below the state folder."""
    root = root.resolve()
    label = re.sub(r"[^A-Za-z0-9.]+", "-", root.parent.parent.parent.name or root.name)[:24]
    key = hashlib.sha256(os.fsencode(root)).hexdigest()[:12]
    return Journal(state_dir() / "patch" / f"{label}-{key}", disk or Disk())


@contextlib.contextmanager
def locked(journal: Journal, deadline_s: float = _DEADLINE_S) -> Iterator[None]:
    """Only one process at a time changes an environment; the others wait until the deadline, then Refusal."""
    from filelock import FileLock, Timeout

    journal.folder.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(journal.folder / "lock", timeout=deadline_s):
            yield
    except Timeout:
        raise Refusal(
            f"Another ungate has been changing these packages for more than {deadline_s:.0f} s.",
            f"See who holds it: fuser {shell(journal.folder / 'lock')}",
        ) from None


def read_stack(journal: Journal) -> tuple[Applied, ...]:
    """The applied series, the first pushed first."""
    rows = journal.stack()["series"]
    try:
        return tuple(
            Applied(
                **{**row, "files": {f: (b, a) for f, (b, a) in row["files"].items()}, "riders": tuple(row["riders"])}
            )
            for row in rows
        )
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise journal.damaged(journal.folder / "stack.json", error) from error


def write_stack(series: tuple[Applied, ...]) -> dict[str, Any]:
    """The stack as the journal stores it."""
    return {"last": "", "series": [asdict(each) for each in series]}
