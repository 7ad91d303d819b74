"""What is being changed right now, written ahead of the first change, and the contents before and after.

One folder an environment. ``pending.json`` exists exactly while a transaction is not finished; ``blobs`` holds every
content that a series replaces or writes, under its sha256; ``log.jsonl`` tells what was done, for people.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
import uuid
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ungate.errors import Refusal, shell
from ungate.patch.content import sha256
from ungate.patch.disk import Disk, Owner

__all__ = ["Change", "Journal", "Pending"]


@dataclass(frozen=True, slots=True)
class Change:
    """One file, relative to the packages' folder: its sha256 before and after, None where there is no such file."""

    file: str
    before: str | None
    after: str | None
    owner: Owner | None = None


@dataclass(frozen=True, slots=True)
class Pending:
    """A transaction that has begun. ``stack`` is what the stack will be once all changes are made."""

    id: str
    what: str
    root: str
    changes: tuple[Change, ...]
    stack: dict[str, Any]


class Journal:
    """The journal of one environment, in ``folder``."""

    def __init__(self, folder: Path, disk: Disk) -> None:
        self.folder = folder
        self.disk = disk

    @property
    def _pending(self) -> Path:
        return self.folder / "pending.json"

    @property
    def _stack(self) -> Path:
        return self.folder / "stack.json"

    @property
    def _staged(self) -> Path:
        return self.folder / "stack.next.json"

    def keep(self, data: bytes) -> str:
        """Store a content under its sha256 and return that."""
        name = sha256(data)
        place = self.folder / "blobs" / name
        if not (place.is_file() and sha256(place.read_bytes()) == name):
            self._put(place, data)
        return name

    def blob(self, name: str) -> bytes:
        """A stored content; Refusal where it is missing or damaged, since nothing else can put a file back."""
        try:
            data = (self.folder / "blobs" / name).read_bytes()
        except FileNotFoundError:
            data = b""
        if sha256(data) != name:
            raise Refusal(
                f"The journal at {self.folder} has lost the content {name[:12]}, so it cannot put the file back.",
                "Install the package again: pip install --force-reinstall --no-deps PACKAGE==VERSION",
            )
        return data

    def begin(self, what: str, root: Path, changes: Iterable[Change], stack: dict[str, Any]) -> Pending:
        """Write ahead what is going to be changed."""
        pending = Pending(uuid.uuid4().hex[:16], what, str(root), tuple(changes), stack)
        self.disk.folder(self.folder)
        self.note(pending, "begin", files=len(pending.changes))
        self.disk.remove(self._staged)
        self.disk.write(self._staged, json.dumps({**stack, "last": pending.id}, indent=1).encode())
        self._put(self._pending, json.dumps(asdict(pending), indent=1).encode())
        return pending

    def pending(self) -> Pending | None:
        """The transaction that was not finished, if any."""
        try:
            found = json.loads(self._pending.read_bytes())
            changes = tuple(
                Change(row["file"], row["before"], row["after"], Owner(**row["owner"]) if row["owner"] else None)
                for row in found["changes"]
            )
            return Pending(found["id"], found["what"], found["root"], changes, found["stack"])
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, LookupError, RecursionError) as error:
            raise self.damaged(self._pending, error) from error

    def damaged(self, place: Path, error: Exception) -> Refusal:
        """A file of the journal cannot be read: what was installed can no longer be told from what was written."""
        return Refusal(
            f"The journal's file {place} is damaged ({type(error).__name__}: {error}), so nothing can be put back.",
            "Install the packages again (pip install --force-reinstall --no-deps PACKAGE==VERSION), "
            f"then remove the journal: rm -r {shell(self.folder)}",
        )

    def stack(self) -> dict[str, Any]:
        """The applied series as they were last written; see :mod:`ungate.patch.stack`."""
        try:
            found = json.loads(self._stack.read_bytes())
            return {"last": str(found["last"]), "series": list(found["series"])}
        except FileNotFoundError:
            return {"last": "", "series": []}
        except (ValueError, TypeError, LookupError, RecursionError) as error:
            raise self.damaged(self._stack, error) from error

    def committed(self, pending: Pending) -> bool:
        """Whether the transaction reached its point of no return."""
        return bool(self.stack()["last"] == pending.id)

    def commit(self, pending: Pending) -> None:
        """The point of no return: the new stack, written when the transaction began, takes its place."""
        self.disk.rename(self._staged, self._stack)

    def end(self, pending: Pending, how: str, **facts: Any) -> None:
        """The transaction is finished, one way or the other."""
        self.note(pending, how, **facts)
        self.disk.remove(self._staged)
        self.disk.remove(self._pending)

    def note(self, pending: Pending, step: str, **facts: Any) -> None:
        """One line of the log."""
        row = {"at": round(time.time(), 3), "id": pending.id, "what": pending.what, "step": step, **facts}
        with contextlib.suppress(OSError):  # a full disk must not keep files from being put back
            self.disk.append(self.folder / "log.jsonl", json.dumps(row).encode() + b"\n")

    def _put(self, place: Path, data: bytes) -> None:
        self.disk.folder(place.parent)
        work = place.with_name(f".{place.name}.{os.getpid()}-{uuid.uuid4().hex[:8]}")
        try:
            self.disk.write(work, data)
            self.disk.rename(work, place)
        except BaseException:
            with contextlib.suppress(OSError):
                work.unlink()
            raise

    def tidy(self) -> None:
        """Remove what a killed process left half written; only called under the lock."""
        for folder in (self.folder, self.folder / "blobs"):
            if folder.is_dir():
                for path in folder.glob(".*-????????"):
                    with contextlib.suppress(OSError):
                        path.unlink()
