"""What each kernel of a binary does, read from its machine code (SASS).

A kernel that stores nothing to memory beyond its own block, does no atomic and does not trap cannot have an
effect: it is *hollow*. That is what is left when a whole body stands under a condition that is false for the
target: the kernel still launches, reports no error, and its output is whatever was in memory before.

The rules go by the first word of an instruction's name, which all generations from sm_75 to sm_121 share
("CUDA Binary Utilities", chapter "Instruction Set Reference").
"""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from ungate.build import cubins, opcodes
from ungate.build.cubins import Function
from ungate.build.demangle import demangled
from ungate.build.opcodes import Instruction
from ungate.errors import Refusal
from ungate.host import children, toolchain
from ungate.host.progress import Report, silent

__all__ = ["Effect", "Image", "Kernel", "read"]

_DEADLINE_S = 300.0

# Stores that another block or the host can see: generic and global stores, atomics and reductions on them, surface
# stores, and copies of tensors out of the block. Not here: STS, STAS and ATOMS (shared memory), STL (local).
_STORES = frozenset(
    {"ST", "STG", "ATOM", "ATOMG", "RED", "REDG", "SUST", "SUATOM", "SURED", "UBLKRED", "UTMASTG", "UTMAREDG"}
)
_LOOK_CLOSER = frozenset({"BPT", "CALL", "UBLKCP"})  # what these do stands in the rest of the instruction
_OUT_OF_BLOCK = re.compile(r"UBLKCP\b(?!.*\.S\.[GS]\b)")  # UBLKCP.S.G is a bulk copy into shared memory
_TRAPS = ("BPT.TRAP", "BPT.INT")
_ONLY_TALK = frozenset({"vprintf", "__assertfail"})


class Effect(StrEnum):
    """What a kernel can do. ``traps`` also stands for one that only prints or fails an assertion."""

    PRESENT = "present"
    TRAPS = "traps"
    HOLLOW = "hollow"
    UNKNOWN = "unknown"  # calls through a pointer, or code that could not be disassembled


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel. ``registers`` a thread; ``shared`` and ``stack`` in bytes, None where cuobjdump does not say.

    ``shared`` includes the 1024 bytes that the system keeps from sm_90 on. ``local`` counts instructions that store
    to local memory (spills and arrays that are indexed). ``digest`` is the sha256 of its machine code.
    """

    name: str
    title: str
    effect: Effect
    instructions: int
    registers: int | None
    shared: int | None
    stack: int | None
    local: int
    digest: str


@dataclass(frozen=True, slots=True)
class Image:
    """One CUDA image. ``arch`` (``sm_120a``) and ``options`` are what ptxas was asked for, ``made_by`` its version."""

    path: Path
    arch: str
    kernels: tuple[Kernel, ...]
    made_by: str = ""
    options: str = ""

    def counted(self, effect: Effect) -> int:
        return sum(kernel.effect is effect for kernel in self.kernels)


def read(path: Path, arch: str = "", report: Report = silent) -> tuple[Image, ...]:
    """Every image in a cubin, object, shared library or fat binary; only those of ``arch`` if one is named.

    Refusal where the file cannot be read, holds no GPU code, or a tool is missing.
    """
    with tempfile.TemporaryDirectory(prefix="ungate-cubins-") as name:
        found = cubins.extract(path, Path(name), arch)
        if not found:
            wanted = f" for {arch}" if arch else ""
            raise Refusal(f"{path} holds no GPU machine code{wanted}.", f"See what it holds: cuobjdump -lelf {path}")
        images = []
        for done, cubin in enumerate(found):
            report(f"reading {path.name}", done, len(found))
            images.append(_image(path, cubin))
        return tuple(image for image in images if image.kernels or len(found) == 1)


def _image(path: Path, cubin: Path) -> Image:
    with ThreadPoolExecutor(1) as pool:
        usage = pool.submit(_resources, cubin)
        functions = cubins.functions(cubin)
        header, effects, local = _read(cubin, functions)
        resources = usage.result()
    kernels = tuple(
        Kernel(
            name=function.name,
            title=demangled(function.name),
            effect=effects[function.name],
            instructions=len(function.code) // 16,
            registers=resources.get(function.name, {}).get("REG"),
            shared=resources.get(function.name, {}).get("SHARED"),
            stack=resources.get(function.name, {}).get("STACK"),
            local=local[function.name],
            digest=hashlib.sha256(function.code).hexdigest(),
        )
        for function in functions
    )
    note = header.get(".note.nv.tkinfo") or {}
    options = str(note.get("tki_toolOptions", "")).strip()
    named = re.search(r"-arch[= ](sm_\w+)", options)
    version = header.get("SM", {}).get("version", {})
    arch = named[1] if named else f"sm_{version.get('major', '')}{version.get('minor', '')}"
    return Image(path, arch, kernels, str(note.get("tki_toolVersion", "")), options)


def _read(cubin: Path, functions: Sequence[Function]) -> tuple[Mapping[str, Any], dict[str, Effect], dict[str, int]]:
    learned = opcodes.mnemonics(cubin, functions)
    if learned is None:
        return _read_all(cubin, functions)
    names, listing = learned
    counts = opcodes.counted(functions)
    effects: dict[str, Effect] = {}
    closer: list[Function] = []
    for function in functions:
        words = {names[code] for code in counts[function.name]}
        if words & _STORES:
            effects[function.name] = Effect.PRESENT
        elif words & _LOOK_CLOSER:
            closer.append(function)
        else:
            effects[function.name] = _without_store(False, function.callees) if function.code else Effect.UNKNOWN
    if closer:
        code = opcodes.disassemble(cubin, closer).code
        effects |= {function.name: _effect(code.get(function.name, ()), function.callees) for function in closer}
    local = {name: sum(n for code, n in count.items() if names[code] == "STL") for name, count in counts.items()}
    return listing.header, effects, local


def _read_all(
    cubin: Path, functions: Sequence[Function]
) -> tuple[Mapping[str, Any], dict[str, Effect], dict[str, int]]:
    listing = opcodes.disassemble(cubin, functions)
    code = {function.name: listing.code.get(function.name, ()) for function in functions}
    effects = {function.name: _effect(code[function.name], function.callees) for function in functions}
    words = {name: Counter(line.opcode.partition(".")[0] for line in lines) for name, lines in code.items()}
    return listing.header, effects, {name: count["STL"] for name, count in words.items()}


def _effect(lines: Sequence[Instruction], callees: frozenset[str]) -> Effect:
    """The functions a kernel calls stand behind it in its own section, so ``lines`` holds them too."""
    if not lines:
        return Effect.UNKNOWN
    traps = pointer = False
    for line in lines:
        if line.opcode.partition(".")[0] in _STORES or _OUT_OF_BLOCK.match(line.opcode):
            return Effect.PRESENT
        traps = traps or line.opcode.startswith(_TRAPS)
        if line.opcode.startswith("CALL"):
            inside = line.opcode.startswith("CALL.REL") and line.operands.startswith("$")
            outside = not line.opcode.startswith("CALL.REL") and bool(callees)
            pointer = pointer or not (inside or outside)
    return Effect.UNKNOWN if pointer else _without_store(traps, callees)


def _without_store(traps: bool, callees: frozenset[str]) -> Effect:
    if callees - _ONLY_TALK:
        return Effect.UNKNOWN
    return Effect.TRAPS if traps or callees else Effect.HOLLOW


def _resources(cubin: Path) -> dict[str, dict[str, int]]:
    with tempfile.TemporaryDirectory(prefix="ungate-usage-") as name:
        output = Path(name) / "usage"
        command: list[str | Path] = [toolchain.need("cuobjdump"), "-res-usage", cubin]
        outcome = children.run(command, deadline_s=_DEADLINE_S, stdout=output)
        if outcome.timed_out or outcome.code != 0:
            return {}  # registers and shared memory are then unknown; what the kernels do is not
        return dict(_usage(output.read_text(encoding="utf-8", errors="replace")))


def _usage(text: str) -> Iterator[tuple[str, dict[str, int]]]:
    for name, usage in re.findall(r"^ Function (.+):\n\s+(REG:.*)$", text, re.MULTILINE):
        yield name, {key: int(value) for key, value in re.findall(r"(REG|STACK|SHARED):(\d+)", usage)}
