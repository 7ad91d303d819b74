"""What the device can do."""

from __future__ import annotations

import importlib.util
import os
from functools import lru_cache, partial

__all__ = [
    "get_device_capability",
    "is_blackwell_supported",
    "is_labkernels_available",
    "is_sm90_supported",
    "is_sm100_supported",
    "is_sm120_supported",
]


@lru_cache(maxsize=1)
def get_device_capability() -> tuple[int, int] | None:
    """(major, minor) from the first entry of ``LAB_CUDA_ARCH_LIST``; None where it is not set."""
    listed = os.environ.get("LAB_CUDA_ARCH_LIST", "").split()
    if not listed:
        return None
    major, minor = listed[0].rstrip("af").split(".")
    return int(major), int(minor)


def _check_device_version(device_capability_majors: list[int]) -> bool:
    capability = get_device_capability()
    return capability is not None and capability[0] in device_capability_majors


is_sm90_supported = lru_cache(maxsize=1)(partial(_check_device_version, device_capability_majors=[9]))
is_sm100_supported = lru_cache(maxsize=1)(partial(_check_device_version, device_capability_majors=[10]))
is_sm120_supported = lru_cache(maxsize=1)(partial(_check_device_version, device_capability_majors=[12]))
is_blackwell_supported = lru_cache(maxsize=1)(partial(_check_device_version, device_capability_majors=[10, 11, 12]))


@lru_cache(maxsize=1)
def is_labkernels_available() -> bool:
    """Whether the kernel library is installed."""
    return importlib.util.find_spec("labkernels") is not None
