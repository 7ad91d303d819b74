"""Where ungate keeps its cache and its state."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["cache_dir", "state_dir"]


def _chosen(variable: str) -> Path | None:
    value = os.environ.get(variable, "").strip()
    return Path(value).expanduser().absolute() if value else None


def cache_dir() -> Path:
    """The folder for what can be made again: wheels, scan results, compiled probes.

    ``UNGATE_CACHE_DIR`` wins over the platform's place (``~/.cache/ungate``). The folder need not exist yet.
    """
    if chosen := _chosen("UNGATE_CACHE_DIR"):
        return chosen
    import platformdirs

    return Path(platformdirs.user_cache_dir("ungate"))


def state_dir() -> Path:
    """The folder for what must be kept: the ledger, the patch journal.

    ``UNGATE_STATE_DIR`` wins over the platform's place (``~/.local/state/ungate``). The folder need not exist yet.
    """
    if chosen := _chosen("UNGATE_STATE_DIR"):
        return chosen
    import platformdirs

    return Path(platformdirs.user_state_dir("ungate"))
