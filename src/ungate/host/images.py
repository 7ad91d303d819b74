"""For which architectures a file holds GPU code, read from its headers alone, without a tool.

Layout of a fat binary (as ``fatbinary`` of the CUDA toolkit writes it): a header of 16 bytes with the magic number
0xBA55ED50, then entries, each with a header that names its kind (1: PTX, 2: machine code) at byte 0, its own size
at 4, the size of what follows at 8, the architecture at 28 and flags at 40. Checked against files that nvcc 13.0 wrote:
bit 20 of the flags is the suffix ``a``, bit 21 the suffix ``f``. A cubin names its architecture in ``e_flags``: in
bits 0 to 7 up to ABI version 7, in bits 8 to 15 from 8 on; its suffix it does not tell.
"""

from __future__ import annotations

import contextlib
import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Image", "images", "runs", "units"]

_MAGIC = b"\x50\xed\x55\xba"
_SECTIONS = (b".nv_fatbin", b"__nv_relfatbin")
_PTX, _CODE = 1, 2
_ARCH_SPECIFIC, _FAMILY = 1 << 20, 1 << 21
_EM_CUDA = 190
_MOST = 200_000  # entries of one file; more is a damaged header


@dataclass(frozen=True, order=True, slots=True)
class Image:
    """Code for one architecture: machine code (``ptx`` False), or PTX that a driver can compile."""

    arch: int
    suffix: str = ""
    ptx: bool = False

    def __str__(self) -> str:
        return f"{'compute' if self.ptx else 'sm'}_{self.arch}{self.suffix}"


def runs(image: Image, arch: int) -> bool:
    """Whether a GPU of a compute capability (120 = sm_120) can use the image (CUDA C++ Programming Guide,
    "Application compatibility"): the suffix ``a`` binds to one architecture and ``f`` to its family; machine code runs
    within one major version from its own minor version up, PTX everywhere from its own version up."""
    if image.suffix == "a":
        return image.arch == arch
    if image.suffix == "f" or not image.ptx:
        return image.arch // 10 == arch // 10 and image.arch <= arch
    return image.arch <= arch


def images(path: Path) -> frozenset[Image] | None:
    """The images of a shared library, an object or a cubin; empty where there is none, None where it cannot be read."""
    found = units(path)
    return None if found is None else frozenset(image for unit in found for image in unit)


def units(path: Path) -> tuple[frozenset[Image], ...] | None:
    """The same by fat binary: nvcc writes one for each translation unit, and a unit may lack what another has."""
    try:
        with path.open("rb") as stream, contextlib.closing(mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ)) as text:
            if text[:4] != b"\x7fELF" or text[4] != 2 or text[5] != 1:  # 64 bits, little endian
                return ()
            if struct.unpack_from("<H", text, 18)[0] == _EM_CUDA:
                return (frozenset(_cubin(text)),)
            return tuple(unit for start, end in _sections(text) for unit in _units(text, start, end))
    except (OSError, ValueError, struct.error, IndexError):
        return None


def _cubin(text: mmap.mmap) -> Iterator[Image]:
    flags = struct.unpack_from("<I", text, 48)[0]
    arch = (flags >> 8) & 0xFF if text[8] >= 8 else flags & 0xFF
    yield Image(arch)


def _sections(text: mmap.mmap) -> Iterator[tuple[int, int]]:
    """(start, end) of each section that holds fat binaries."""
    table = struct.unpack_from("<Q", text, 40)[0]
    size, count, names = struct.unpack_from("<HHH", text, 58)
    rows = [struct.unpack_from("<IIQQQQ", text, table + number * size) for number in range(count)]
    if not rows or names >= len(rows):
        return
    strings = rows[names][4]
    for name, _, _, _, start, length in rows:
        word = text[strings + name : strings + name + 20].partition(b"\0")[0]
        if word in _SECTIONS:
            yield start, min(start + length, len(text))


def _units(text: mmap.mmap, start: int, end: int) -> Iterator[frozenset[Image]]:
    at = text.find(_MAGIC, start, end)
    for _ in range(_MOST):
        if at < 0:
            return
        head, size = struct.unpack_from("<HQ", text, at + 6)
        last = min(at + head + size, end)
        yield frozenset(_entries(text, at + head, last))
        at = text.find(_MAGIC, max(last, at + 16), end)


def _entries(text: mmap.mmap, place: int, last: int) -> Iterator[Image]:
    while place + 64 <= last:
        kind, own, length = struct.unpack_from("<H2xIQ", text, place)
        arch, flags = struct.unpack_from("<I8xQ", text, place + 28)
        suffix = "a" if flags & _ARCH_SPECIFIC else "f" if flags & _FAMILY else ""
        if kind in (_PTX, _CODE) and arch:
            yield Image(arch, suffix, kind == _PTX)
        if own < 16:
            return
        place += own + length
