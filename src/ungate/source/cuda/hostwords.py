"""The words by which host code and build files speak of an architecture: a cheap first look at a file's bytes."""

from __future__ import annotations

import re

__all__ = ["MENTIONS"]

MENTIONS = re.compile(
    rb"arch=compute|sm_version|SMVersion|ComputeCapab|compute_cap|arch::Sm|CUDA_ARCHITECTURES|\.major\b"
)
