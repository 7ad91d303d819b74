"""The words by which host code and build files speak of an architecture: a cheap first look at a file's bytes."""

from __future__ import annotations

__all__ = ["mentions"]

_WORDS = (
    b"arch=compute",
    b"sm_version",
    b"SMVersion",
    b"ompute_cap",
    b"omputeCap",
    b"arch::Sm",
    b"CUDA_ARCHITECTURES",
    b".major",
)


def mentions(data: bytes) -> bool:
    """Whether one of the words occurs; each is one search at the speed of memory."""
    return any(word in data for word in _WORDS)
