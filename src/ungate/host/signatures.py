"""What files looked like to ``stat`` when they were last found to be as their RECORD says.

The rule is that of git's index: a file whose size, times and inode are as they were then was not written since, and
need not be read again. The change time is among them, which no program sets at will. A file that changed within
the last moments before it was read may have been written once more in the same tick of the clock, so it is not
remembered.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from pathlib import Path
from typing import Any

from ungate.host.folders import cache_dir
from ungate.host.keeping import keep

__all__ = ["Signatures"]

_FORMAT = 1
_SETTLED_NS = 3_000_000_000
"""How long a file must have been left alone before it is remembered; FAT counts its times in steps of two seconds."""


def _signature(field: str, state: os.stat_result) -> str:
    return f"{state.st_size} {state.st_mtime_ns} {state.st_ctime_ns} {state.st_ino} {state.st_dev} {field}"


class Signatures:
    """Of one ``.dist-info`` folder. A damaged or foreign store counts as empty."""

    def __init__(self, info: Path) -> None:
        key = hashlib.sha256(os.fsencode(info.resolve())).hexdigest()[:24]
        self._path = cache_dir() / "signatures" / f"{key}.json"
        self._known: dict[str, Any] = {}
        self._new = False
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            found = json.loads(self._path.read_bytes())
            if found["format"] == _FORMAT and found["info"] == str(info.resolve()):
                self._known = dict(found["files"])

    def holds(self, name: str, field: str, state: os.stat_result) -> bool:
        """Whether the file was found to be as RECORD's ``field`` says when it looked like this."""
        return self._known.get(name) == _signature(field, state)

    def learn(self, name: str, field: str, state: os.stat_result) -> None:
        """The file is as recorded; ``state`` is what it looked like before it was read."""
        if time.time_ns() - max(state.st_mtime_ns, state.st_ctime_ns) > _SETTLED_NS:
            self._known[name] = _signature(field, state)
            self._new = True

    def save(self, info: Path) -> None:
        """Keep what was learnt; that there is no room for it is no error."""
        if self._new:
            rows = {"format": _FORMAT, "info": str(info.resolve()), "files": self._known}
            keep(self._path, json.dumps(rows, separators=(",", ":")).encode("utf-8", "surrogatepass"))
