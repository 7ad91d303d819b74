"""Names of kernels and operators from an engine's profiler: start it, let the server work, stop it, read the trace."""

from __future__ import annotations

import gzip
import json
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ungate.errors import Refusal

__all__ = ["launched", "operators", "profiled"]

_WRITTEN_S = 30.0  # a trace of eight ranks takes seconds to write, some engines after they have answered
_STEADY_S = 1.0


def launched(folder: Path) -> Mapping[str, int]:
    """Launches of each kernel in the Chrome traces (``*.json``, ``*.json.gz``) below ``folder``; empty without any.

    The traces are torch.profiler's: an event with category ``kernel`` is one launch on the device.
    """
    return _names(folder, "kernel")


def operators(folder: Path) -> Mapping[str, int]:
    """Calls of each PyTorch operator in the traces (category ``cpu_op``): what runs on a CPU, or launches kernels."""
    return _names(folder, "cpu_op")


def _names(folder: Path, category: str) -> Mapping[str, int]:
    names: Counter[str] = Counter()
    for path in sorted(folder.rglob("*.json*")):
        try:
            with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as stream:
                trace = json.load(stream)
        except (OSError, ValueError, EOFError):
            continue
        events = trace.get("traceEvents", []) if isinstance(trace, dict) else []
        names.update(event["name"] for event in events if event.get("cat") == category and "name" in event)
    return names


@contextmanager
def profiled(
    url: str,
    start: str = "/start_profile",
    stop: str = "/stop_profile",
    *,
    body: Mapping[str, object] | None = None,
    folder: Path | None = None,
    timeout_s: float = 120.0,
) -> Iterator[None]:
    """Run the engine's profiler while the block makes requests. Refusal when the engine has no profiler endpoint.

    ``body`` is what ``start`` is sent. With ``folder`` the end waits until the traces there no longer grow.
    """
    _post(url + start, body or {}, timeout_s)
    try:
        yield
    finally:
        _post(url + stop, {}, timeout_s)
        if folder is not None:
            _settled(folder)


def _settled(folder: Path) -> None:
    end, last, since = time.monotonic() + _WRITTEN_S, -1, time.monotonic()
    while time.monotonic() < end:
        size = sum(path.stat().st_size for path in folder.rglob("*.json*") if path.is_file())
        if size != last:
            last, since = size, time.monotonic()
        elif size and time.monotonic() - since >= _STEADY_S:
            return
        time.sleep(0.2)


def _post(address: str, body: Mapping[str, object], timeout_s: float) -> None:
    data, headers = json.dumps(body).encode(), {"Content-Type": "application/json"}
    request = urllib.request.Request(address, data=data, headers=headers, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=timeout_s):
            return
    except (urllib.error.URLError, OSError) as error:
        raise Refusal(
            f"The server's profiler did not answer at {address}: {error}.",
            "Name another way of proof in the recipe, such as a log line or a counter, or an engine that has one.",
        ) from error
