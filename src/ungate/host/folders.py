"""Where ungate keeps its cache and its state."""

from __future__ import annotations

import os
from pathlib import Path

from ungate.errors import Refusal

__all__ = ["cache_dir", "made", "state_dir", "unusable"]


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


def made(folder: Path, variable: str = "UNGATE_STATE_DIR") -> Path:
    """The folder, made with its parents where it is not there; Refusal that names ``variable`` where it cannot be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unusable(folder, error, variable) from error
    return folder


def unusable(folder: Path, error: OSError, variable: str = "UNGATE_STATE_DIR") -> Refusal:
    """What to say of a folder that cannot be made; ``variable`` is what names another one."""
    return Refusal(
        f"The folder {folder} cannot be made: {error.strerror or error}.",
        f"Name one that may be written and has room: export {variable}=DIR",
    )
