"""Kernel names from an engine's profiler: start it, let the server work, stop it, read the trace."""

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

__all__ = ["launched", "profiled"]


def launched(folder: Path) -> Mapping[str, int]:
    """Launches of each kernel in the Chrome traces (``*.json``, ``*.json.gz``) below ``folder``; empty without any.

    The traces are torch.profiler's: an event with category ``kernel`` is one launch on the device.
    """
    names: Counter[str] = Counter()
    for path in sorted(folder.rglob("*.json*")):
        try:
            with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as stream:
                trace = json.load(stream)
        except (OSError, ValueError, EOFError):
            continue
        events = trace.get("traceEvents", []) if isinstance(trace, dict) else []
        names.update(event["name"] for event in events if event.get("cat") == "kernel" and "name" in event)
    return names


@contextmanager
def profiled(
    url: str, start: str = "/start_profile", stop: str = "/stop_profile", *, timeout_s: float = 60.0
) -> Iterator[None]:
    """Run the engine's profiler while the block makes requests. Refusal when the engine has no profiler endpoint.

    The trace goes where the server was told to write it (``VLLM_TORCH_PROFILER_DIR``, ``SGLANG_TORCH_PROFILER_DIR``).
    """
    _post(url + start, timeout_s)
    try:
        yield
    finally:
        _post(url + stop, timeout_s)
        time.sleep(1.0)  # the workers write their traces after the answer


def _post(address: str, timeout_s: float) -> None:
    request = urllib.request.Request(address, data=b"{}", headers={"Content-Type": "application/json"}, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=timeout_s):
            return
    except (urllib.error.URLError, OSError) as error:
        raise Refusal(
            f"The server's profiler did not answer at {address}: {error}.",
            "Start the server with a profiler folder set (VLLM_TORCH_PROFILER_DIR or SGLANG_TORCH_PROFILER_DIR).",
        ) from error
