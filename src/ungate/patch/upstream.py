"""Where a file of a wheel lies in the project's own checkout, so that ``git apply`` finds it there."""

from __future__ import annotations

from ungate.host.packages import canonical

__all__ = ["in_checkout"]

_LAYOUTS: dict[str, tuple[tuple[str, str], ...]] = {
    # the wheel carries the C++ sources of the project's root as package data
    "flashinfer-python": (
        ("flashinfer/data/csrc/", "csrc/"),
        ("flashinfer/data/include/", "include/"),
        ("flashinfer/data/cutlass/", "3rdparty/cutlass/"),
        ("flashinfer/data/spdlog/", "3rdparty/spdlog/"),
    ),
    "sglang": (("sglang/", "python/sglang/"),),
}


def in_checkout(package: str, file: str) -> str:
    """The path in the project's repository; the wheel's own path where the layouts agree."""
    for prefix, place in _LAYOUTS.get(canonical(package), ()):
        if file.startswith(prefix):
            return place + file.removeprefix(prefix)
    return file
