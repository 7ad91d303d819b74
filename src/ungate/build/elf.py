"""Kernels that are host functions: which of them are nothing but a return.

The lab's kernels are ordinary functions of a shared library, compiled for the host's processor. One whose body was
compiled out is left as a lone return instruction: it can be called, does nothing and reports no error.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["HostKernel", "host_kernels"]

_RETURNS = {
    "EM_X86_64": (b"\xc3", b"\xf3\x0f\x1e\xfa\xc3"),  # ret; endbr64 ret (Intel SDM, volume 2)
    "EM_AARCH64": (b"\xc0\x03\x5f\xd6", b"\x5f\x24\x03\xd5\xc0\x03\x5f\xd6"),  # ret; bti c, ret (Arm ARM)
}


@dataclass(frozen=True, slots=True)
class HostKernel:
    """One kernel function of a shared library. ``size`` in bytes; ``hollow`` None on a processor not known here."""

    name: str
    size: int
    hollow: bool | None


def host_kernels(library: Path, prefix: str) -> tuple[HostKernel, ...]:
    """The defined functions whose name begins with ``prefix``, by name; ValueError for a file that is no ELF file."""
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile
    from elftools.elf.sections import SymbolTableSection

    found: dict[str, HostKernel] = {}
    with library.open("rb") as stream:
        try:
            elf = ELFFile(stream)
            returns = _RETURNS.get(elf["e_machine"])
            for table in (elf.get_section_by_name(".symtab"), elf.get_section_by_name(".dynsym")):
                for symbol in table.iter_symbols() if isinstance(table, SymbolTableSection) else ():
                    if not symbol.name.startswith(prefix) or symbol["st_info"]["type"] != "STT_FUNC":
                        continue
                    if symbol["st_shndx"] == "SHN_UNDEF":
                        continue
                    section = elf.get_section(symbol["st_shndx"])
                    start = symbol["st_value"] - section["sh_addr"]
                    size = symbol["st_size"]
                    body = section.data()[start : start + size]
                    found[symbol.name] = HostKernel(symbol.name, size, None if returns is None else body in returns)
        except ELFError as error:
            raise ValueError(f"{library} is no ELF file: {error}") from error
    return tuple(found[name] for name in sorted(found))
