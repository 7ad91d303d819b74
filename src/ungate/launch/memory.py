"""Device memory in use, to see that a server that ended has given it back."""

from __future__ import annotations

import time

__all__ = ["left", "used"]

_SLACK = 64 << 20  # bytes that a display or another client may take meanwhile
_STEADY = 3
_TICK_S = 0.5


def used() -> tuple[int, ...]:
    """Bytes in use on each GPU; empty where there is no NVIDIA driver."""
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return ()
    try:
        handles = map(pynvml.nvmlDeviceGetHandleByIndex, range(pynvml.nvmlDeviceGetCount()))
        return tuple(int(pynvml.nvmlDeviceGetMemoryInfo(handle).used) for handle in handles)
    except pynvml.NVMLError:
        return ()
    finally:
        pynvml.nvmlShutdown()


def left(before: tuple[int, ...], *, deadline_s: float = 20.0) -> tuple[int, ...] | None:
    """Bytes a GPU more than ``before``, once they have stopped shrinking; None without a reading.

    The driver gives memory back some time after a process is gone, so a start right after a stop may find too little.
    """
    if not before:
        return None
    end, steady, last = time.monotonic() + deadline_s, 0, used()
    while time.monotonic() < end and steady < _STEADY and any(_over(last, before)):
        time.sleep(_TICK_S)
        now = used()
        steady = steady + 1 if now == last else 0
        last = now
    return tuple(_over(last, before)) if len(last) == len(before) else None


def _over(now: tuple[int, ...], before: tuple[int, ...]) -> list[int]:
    return [max(0, n - b) if n - b > _SLACK else 0 for n, b in zip(now, before, strict=False)]
