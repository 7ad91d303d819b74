"""How much shared memory a thread block may take, by compute capability.

The numbers are those of ``cuda::arch_traits`` (``cuda/__device/arch_traits.h``) of CCCL, which comes with the CUDA
toolkit and, vendored, with FlashInfer; a test compares this table with that header.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["SHARED_PER_BLOCK", "SOURCE", "read_traits"]

SOURCE = "cuda::arch_traits of CCCL 3.3, max_shared_memory_per_block_optin"

SHARED_PER_BLOCK: Mapping[int, int] = {
    75: 64 * 1024,
    80: 163 * 1024,
    86: 99 * 1024,
    87: 163 * 1024,
    88: 99 * 1024,
    89: 99 * 1024,
    90: 227 * 1024,
    100: 227 * 1024,
    103: 227 * 1024,
    110: 227 * 1024,
    120: 99 * 1024,
    121: 99 * 1024,
}
"""Bytes that a kernel may opt in to, the driver's own share taken off. What the header does not list is not known."""

_ARCH = re.compile(r"arch_traits<arch_id::sm_(\d+)>\(\) noexcept\s*\{(.*?)\n\}", re.DOTALL)
_SAME = re.compile(r"arch_traits<arch_id::sm_(\d+)>\(\)")
_MULTIPROCESSOR = re.compile(r"max_shared_memory_per_multiprocessor\s*=\s*(\d+) \* 1024")
_DIRECT = re.compile(r"max_shared_memory_per_block_optin\s*=\s*(\d+) \* 1024")
_RESERVED_FROM, _RESERVED = 80, 1024  # reserved_shared_memory_per_block of that header


def read_traits(header: str) -> dict[int, int]:
    """The same table from the text of ``arch_traits.h``."""
    found: dict[int, int] = {}
    for arch, body in _ARCH.findall(header):
        number = int(arch)
        if direct := _DIRECT.search(body):
            found[number] = int(direct[1]) * 1024
        elif whole := _MULTIPROCESSOR.search(body):
            found[number] = int(whole[1]) * 1024 - (_RESERVED if number >= _RESERVED_FROM else 0)
        elif same := _SAME.search(body):
            found[number] = found[int(same[1])]
    return found
