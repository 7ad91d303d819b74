"""torch.compile: ``$TORCHINDUCTOR_CACHE_DIR``, else ``torchinductor_USER`` in the temporary folder.

Below it are code folders of two letters, ``fxgraph`` and ``aotautograd`` (torch/_inductor/runtime/cache_dir_utils.py,
torch/_inductor/codecache.py). Files are named by a hash over the graph, the configuration and torch itself, but a
custom operator enters that hash by its name only: an edited operator behind it is not seen.
"""

from __future__ import annotations

import getpass
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from ungate.build.caches import Cache, Found

__all__ = ["CACHE"]


def _place(variables: Mapping[str, str]) -> Path:
    if chosen := variables.get("TORCHINDUCTOR_CACHE_DIR"):
        return Path(chosen)
    user = re.sub(r'[\\/:*?"<>|]', "_", getpass.getuser())
    return Path(variables.get("TMPDIR") or tempfile.gettempdir()) / f"torchinductor_{user}"


def _entries(root: Path) -> Iterator[Found]:
    for folder in sorted(root.iterdir()):
        if folder.is_symlink() or not folder.is_dir() or folder.name == "locks":
            continue
        yield Found(
            name=folder.name,
            path=folder,
            owner="torch",
            outputs=tuple(sorted(folder.rglob("*.so"))),
            addressed=True,
            locks=tuple(sorted((root / "locks").glob("*.lock"))),
            note="custom operators enter its hash by their name only",
        )


CACHE = Cache("inductor", _place, _entries)
