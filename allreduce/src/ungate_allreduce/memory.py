"""Memory that all ranks of one host see: /dev/shm, or a memfd where /dev/shm is too small."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import os
import platform
import uuid
from collections.abc import Sequence
from pathlib import Path

from .errors import Unsupported

__all__ = ["Segment", "numa_node"]

SHM = Path("/dev/shm")
MADV_HUGEPAGE = 14
MPOL_PREFERRED = 1
MBIND = {"x86_64": 237, "aarch64": 235}
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mmap.restype = ctypes.c_void_p
_LIBC.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)


def numa_node(pci: str) -> int | None:
    """NUMA node of a PCI device (``0000:17:00.0``), None where the kernel does not say (-1, one node, VMs)."""
    try:
        node = int((Path("/sys/bus/pci/devices") / pci.lower() / "numa_node").read_text())
    except (OSError, ValueError):
        return None
    return node if node >= 0 else None


class Segment:
    """A mapping of shared memory; ``address`` is where this process sees it.

    ``path`` is how another process of this host opens the same memory. The creator calls :meth:`forget_name`
    once all have opened it, so nothing is left behind when the processes end, however they end.
    """

    def __init__(self, descriptor: int, size: int, path: str) -> None:
        self.size = size
        self.path = path
        self.descriptor = descriptor
        self.huge = False
        self.bound = False
        address = _LIBC.mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, descriptor, 0)
        if address in (None, ctypes.c_void_p(-1).value):
            raise OSError(ctypes.get_errno(), f"{size} bytes could not be mapped")
        self.address: int = int(address or 0)

    @classmethod
    def create(cls, size: int, regions: Sequence[tuple[int, int, int | None]] = ()) -> Segment:
        """New zeroed memory, every page allocated.

        ``regions`` are (offset, bytes, NUMA node or None): a preference set before the pages exist. Raises
        Unsupported when neither /dev/shm nor anonymous memory holds ``size`` bytes.
        """
        path = SHM / f"ungate-allreduce-{uuid.uuid4().hex}"
        try:
            return cls._filled(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), size, str(path), regions)
        except OSError:
            path.unlink(missing_ok=True)
            descriptor = os.memfd_create("ungate-allreduce")
        try:
            return cls._filled(descriptor, size, f"/proc/{os.getpid()}/fd/{descriptor}", regions)
        except OSError as error:
            raise Unsupported(
                f"Shared memory of {size} bytes is not available in /dev/shm nor as a memfd "
                f"({os.strerror(error.errno or errno.ENOMEM)}). Give the container a larger /dev/shm "
                "(docker run --shm-size=1g) or pass a smaller max_bytes."
            ) from error

    @classmethod
    def _filled(cls, descriptor: int, size: int, path: str, regions: Sequence[tuple[int, int, int | None]]) -> Segment:
        segment = None
        try:
            os.ftruncate(descriptor, size)
            segment = cls(descriptor, size, path)
            segment.huge = _LIBC.madvise(ctypes.c_void_p(segment.address), ctypes.c_size_t(size), MADV_HUGEPAGE) == 0
            for offset, count, node in regions:
                if node is not None:
                    segment.bound |= _prefer(segment.address + offset, count, node)
            os.posix_fallocate(descriptor, 0, size)
        except OSError:
            if segment is not None:
                segment.close()
            else:
                os.close(descriptor)
            raise
        return segment

    @classmethod
    def open(cls, path: str, size: int) -> Segment:
        """Map memory that another process created; Unsupported when it cannot be reached from here."""
        try:
            descriptor = os.open(path, os.O_RDWR)
        except OSError as error:
            raise Unsupported(
                f"The shared memory of rank 0 ({path}) cannot be opened here: {os.strerror(error.errno or 0)}. "
                "All ranks must run on one host and, in containers, share /dev/shm or the process namespace."
            ) from error
        if os.fstat(descriptor).st_size != size:
            os.close(descriptor)
            raise Unsupported(f"The shared memory at {path} has another size than this rank expects ({size} bytes).")
        try:
            return cls(descriptor, size, path)
        except OSError as error:
            os.close(descriptor)
            raise Unsupported(
                f"The shared memory at {path} cannot be mapped: {os.strerror(error.errno or 0)}."
            ) from error

    def forget_name(self) -> None:
        """Remove the name; the memory lives as long as one process maps it."""
        if self.path.startswith(str(SHM)):
            with contextlib.suppress(FileNotFoundError):
                Path(self.path).unlink()

    def fill(self, offset: int, size: int, byte: int) -> None:
        """Set bytes."""
        ctypes.memset(self.address + offset, byte, size)

    def word(self, offset: int) -> ctypes.c_uint64:
        """The 8-byte word at an offset: reading and assigning ``.value`` are single accesses."""
        return ctypes.c_uint64.from_address(self.address + offset)

    def close(self) -> None:
        """Unmap; safe to call twice."""
        if self.address:
            _LIBC.munmap(ctypes.c_void_p(self.address), ctypes.c_size_t(self.size))
            os.close(self.descriptor)
            self.address = 0


def _prefer(address: int, size: int, node: int) -> bool:
    number = MBIND.get(platform.machine())
    page = mmap.PAGESIZE
    if number is None or node >= 1024 or address % page:
        return False
    mask = (ctypes.c_ulong * 16)()
    mask[node // 64] = 1 << (node % 64)
    done = _LIBC.syscall(number, ctypes.c_void_p(address), ctypes.c_ulong(size), MPOL_PREFERRED, mask, 1025, 0)
    return bool(done == 0)
