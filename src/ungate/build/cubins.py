"""The CUDA images inside a file: a cubin itself, or those in an object, a shared library or a fat binary."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from pathlib import Path

from ungate.errors import Refusal, shell
from ungate.host import children, toolchain

__all__ = ["Function", "archs", "extract", "functions"]

_EM_CUDA = 190  # elf.h of the CUDA toolkit and of binutils
_FUNCTION = 2  # STT_FUNC
_ENTRY = 0x10  # st_other of a kernel in a cubin (STO_CUDA_ENTRY)
_DEADLINE_S = 300.0


@dataclass(frozen=True, slots=True)
class Function:
    """A kernel (``__global__`` function) of a cubin. ``index`` is its place in the symbol table.

    ``code`` holds its machine code, with the device functions that it calls behind it; ``callees`` are functions
    outside of it, such as ``vprintf``.
    """

    name: str
    index: int
    code: bytes
    callees: frozenset[str]


def _is_cubin(path: Path) -> bool:
    with path.open("rb") as stream:
        head = stream.read(20)
    return head[:4] == b"\x7fELF" and len(head) == 20 and int(struct.unpack_from("<H", head, 18)[0]) == _EM_CUDA


def extract(path: Path, into: Path, arch: str = "") -> tuple[Path, ...]:
    """The cubins of a file, each as a file; of one architecture (``sm_120a``) if one is named.

    ``into`` is an empty folder to put them in. Refusal where the file cannot be read or cuobjdump is missing;
    an empty answer where the file holds no machine code for a GPU.
    """
    try:
        if _is_cubin(path):
            return (path,)
    except OSError as error:
        raise Refusal(
            f"The binary {path} cannot be read: {error.strerror}.", f"Look at it: ls -l {shell(path)}"
        ) from None
    chosen = ["--gpu-architecture", arch] if arch else []
    command: list[str | Path] = [toolchain.need("cuobjdump"), "--extract-elf", "all", *chosen, path.absolute()]
    outcome = children.run(command, deadline_s=_DEADLINE_S, cwd=into)
    found = sorted(into.glob("*.cubin"), key=lambda cubin: [int(part) for part in re.findall(r"\d+", cubin.name)])
    if outcome.timed_out:
        raise Refusal(f"cuobjdump did not end within {_DEADLINE_S:.0f} s on {path}.", f"Try: cuobjdump -lelf {path}")
    if not found and outcome.code != 0 and "does not contain device code" not in outcome.output:
        raise Refusal(f"cuobjdump cannot read {path}: {outcome.output.strip()}", f"Try: cuobjdump -lelf {path}")
    return tuple(found)


def archs(path: Path) -> tuple[str, ...] | None:
    """The architectures a library holds machine code for (``sm_90a``), as cuobjdump says; None without an answer."""
    outcome = children.run([toolchain.need("cuobjdump"), "-lelf", path], deadline_s=_DEADLINE_S)
    if outcome.timed_out or outcome.code != 0:
        return None
    return tuple(sorted(set(re.findall(r"\.(sm_\d+[af]?)\.cubin", outcome.output))))


def functions(cubin: Path) -> tuple[Function, ...]:
    """The kernels of a cubin, from its symbol table, its code sections and its call graph."""
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile
    from elftools.elf.sections import SymbolTableSection

    rows: list[tuple[int, ...]] = []
    names: list[str] = []
    callees: dict[int, set[str]] = {}
    found = []
    try:
        with cubin.open("rb") as stream:
            elf = ELFFile(stream)
            table = elf.get_section_by_name(".symtab")
            if isinstance(table, SymbolTableSection):
                # Read as plain rows: pyelftools knows only the bits of st_other that other machines use.
                rows = list(struct.iter_unpack("<IBBHQQ", table.data()))
                names = [table.stringtable.get_string(row[0]) for row in rows]
            graph = elf.get_section_by_name(".nv.callgraph")
            for caller, callee in struct.iter_unpack("<II", graph.data()) if graph is not None else ():
                if caller < len(names) and callee < len(names):  # larger numbers are marks: "called by pointer"
                    callees.setdefault(caller, set()).add(names[callee])
            for index, (name, (_, kind, other, section, start, size)) in enumerate(zip(names, rows, strict=True)):
                if kind & 0xF == _FUNCTION and other & _ENTRY:
                    code = elf.get_section(section).data()[start : start + size]
                    found.append(Function(name, index, code, frozenset(callees.get(index, ()))))
    except (ELFError, struct.error) as error:
        raise Refusal(f"{cubin} is no cubin: {error}.", f"Try: cuobjdump -lelf {cubin}") from None
    return tuple(found)
