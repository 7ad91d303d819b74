"""What a killed candidate leaves in ``/dev/shm``: found by who had it mapped, removed where nobody has it any more."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

__all__ = ["mapped", "present", "remove"]

MEMORY = Path("/dev/shm")


def present() -> frozenset[str]:
    """The names there."""
    try:
        return frozenset(entry.name for entry in MEMORY.iterdir())
    except OSError:
        return frozenset()


def mapped(pids: Iterable[int]) -> frozenset[str]:
    """The names of the files there that these processes have mapped or open, those already without a name left out."""
    found: set[str] = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="replace").splitlines():
                path = line.partition("/")[2]
                found.add(f"/{path}")
        with contextlib.suppress(OSError):
            for handle in Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    found.add(str(handle.readlink()))
    return frozenset(
        Path(path).name for path in found if Path(path).parent == MEMORY and not path.endswith("(deleted)")
    )


def _living() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def remove(names: Iterable[str]) -> tuple[str, ...]:
    """Remove those that no process has mapped or open; the names of what was removed."""
    still = frozenset(names) & present()
    held = mapped(_living()) if still else frozenset()
    gone = []
    for name in sorted(still - held):
        with contextlib.suppress(OSError):
            (MEMORY / name).unlink()
            gone.append(name)
    return tuple(gone)
