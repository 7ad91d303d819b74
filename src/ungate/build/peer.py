"""Verdicts on peer access that an engine keeps: one file a set of GPUs, measured once and believed from then on.

vLLM writes them (vllm/distributed/device_communicators/all_reduce_utils.py), SGLang has the same code. They outlive a
change of the driver, the firmware or the slots, after which the engine maps memory that it cannot reach.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil

from ungate.build.caches import Found

__all__ = ["verdicts"]

_NAME = "gpu_p2p_access_cache_for_*.json"


def verdicts(root: Path, owner: str) -> Iterator[Found]:
    """The verdicts in a folder; stale where the machine was started since, which is when those things change."""
    for file in sorted(root.glob(_NAME)):
        if file.is_symlink() or not file.is_file():
            continue
        before = file.stat().st_mtime < psutil.boot_time()
        yield Found(
            name=file.name,
            path=file,
            owner=owner,
            outputs=(file,),
            stale="measured before this machine was last started; driver, firmware or slots may have changed since"
            if before
            else "",
            note="a measurement of peer access, which the engine does not repeat",
        )
