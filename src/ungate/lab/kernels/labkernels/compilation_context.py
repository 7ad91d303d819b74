"""The architectures that this process compiles for."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

__all__ = ["CompilationContext"]


class CompilationContext:
    """Reads ``LAB_CUDA_ARCH_LIST``: capabilities separated by blanks, ``"9.0 12.0a"``; the first is the device's.

    There is no device to ask, so an unset variable means that no architecture is known.
    """

    def __init__(self) -> None:
        self.TARGET_CUDA_ARCHS: list[tuple[int, str]] = []
        for arch in os.environ.get("LAB_CUDA_ARCH_LIST", "").split():
            match = re.fullmatch(r"(\d+)\.(\d[af]?)", arch)
            if match is None:
                raise ValueError(f"LAB_CUDA_ARCH_LIST holds {arch!r}, which is not of the form 12.0 or 12.0a.")
            self.TARGET_CUDA_ARCHS.append((int(match[1]), match[2]))

    def get_supported_archs(self, supported_major_versions: Sequence[int] | None = None) -> list[tuple[int, str]]:
        """The targets as (major, minor with suffix), without those whose major version is not supported."""
        supported = [
            (major, minor)
            for major, minor in self.TARGET_CUDA_ARCHS
            if supported_major_versions is None or major in supported_major_versions
        ]
        if not supported:
            raise RuntimeError(f"No supported CUDA architectures found for major versions {supported_major_versions}.")
        return supported
