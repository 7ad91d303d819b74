"""What each kernel of a binary does, read from its machine code (SASS).

A kernel that stores nothing to memory beyond its own block, does no atomic and does not trap cannot have an
effect: it is *hollow*. That is what is left when a whole body stands under a condition that is false for the
target: the kernel still launches, reports no error, and its output is whatever was in memory before.

Opcodes are those that nvdisasm prints; the rules go by their first word, which all generations from sm_75 to
sm_121 share. "CUDA Binary Utilities", chapter "Instruction Set Reference", lists them.
"""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from ungate.build import cubins
from ungate.build.cubins import Symbols
from ungate.build.demangle import demangled
from ungate.errors import Refusal
from ungate.host import children, toolchain
from ungate.host.progress import Report, silent

__all__ = ["Effect", "Image", "Kernel", "read"]

_DEADLINE_S = 300.0

# Stores that another block or the host can see: generic and global stores, atomics and reductions on them, surface
# stores, bulk copies and tensor copies out of the block. Not here: STS, STAS and ATOMS (shared memory), STL (local).
_STORES = frozenset({"ST", "STG", "ATOM", "ATOMG", "RED", "REDG", "SUST", "SUATOM", "SURED"}) | {
    "UBLKCP",
    "UBLKRED",
    "UTMASTG",
    "UTMAREDG",
}
_INTO_BLOCK = re.compile(r"UBLKCP\b.*\.S\.[GS]\b")  # a bulk copy into shared memory is a load
_TRAPS = ("BPT.TRAP", "BPT.INT")
_ONLY_TALK = frozenset({"vprintf", "__assertfail"})


class Effect(StrEnum):
    """What a kernel can do. ``traps`` also stands for one that only prints or fails an assertion."""

    PRESENT = "present"
    TRAPS = "traps"
    HOLLOW = "hollow"
    UNKNOWN = "unknown"  # calls through a pointer, or code that was not disassembled


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel. ``registers`` a thread; ``shared`` and ``stack`` in bytes, None where cuobjdump does not say.

    ``shared`` includes the 1024 bytes that the system keeps from sm_90 on. ``local`` counts instructions that store
    to local memory (spills and arrays that are indexed). ``digest`` identifies the code without its name.
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
    """One CUDA image; ``arch`` (``sm_120a``), ``options`` and ``made_by``: what ptxas was asked for, and which it was."""

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
    with tempfile.TemporaryDirectory(prefix="ungate-sass-") as name:
        work = Path(name)
        (work / "cubins").mkdir()
        found = cubins.extract(path, work / "cubins", arch)
        if not found:
            wanted = f" for {arch}" if arch else ""
            raise Refusal(f"{path} holds no GPU machine code{wanted}.", f"See what it holds: cuobjdump -lelf {path}")
        images = []
        for done, cubin in enumerate(found):
            report(f"reading {path.name}", done, len(found))
            images.append(_image(path, cubin, work))
        return tuple(image for image in images if image.kernels or len(found) == 1)


def _image(path: Path, cubin: Path, work: Path) -> Image:
    output = work / "code.json"
    with ThreadPoolExecutor(2) as pool:
        disassembly = pool.submit(_tool, "nvdisasm", ["-json", cubin], output)
        usage = pool.submit(_tool, "cuobjdump", ["-res-usage", cubin], work / "usage")
        disassembly.result()
        usage.result()
    header, functions = _parsed(cubin, output)
    resources = dict(_resources((work / "usage").read_text(encoding="utf-8", errors="replace")))
    symbols = cubins.symbols(cubin)
    code = {str(function.get("function-name")): function for function in functions}
    kernels = tuple(_kernel(name, code.get(name), symbols, resources.get(name, {})) for name in symbols.kernels)
    note = header.get(".note.nv.tkinfo") or {}
    options = str(note.get("tki_toolOptions", "")).strip()
    named = re.search(r"-arch[= ](sm_\w+)", options)
    version = header.get("SM", {}).get("version", {})
    arch = named[1] if named else f"sm_{version.get('major', '')}{version.get('minor', '')}"
    return Image(path, arch, kernels, str(note.get("tki_toolVersion", "")), options)


def _tool(name: str, arguments: list[str | Path], stdout: Path) -> None:
    program = toolchain.need(name)
    outcome = children.run([program, *arguments], deadline_s=_DEADLINE_S, stdout=stdout)
    if outcome.timed_out:
        raise Refusal(f"{name} did not end within {_DEADLINE_S:.0f} s on {arguments[-1]}.", "Read a smaller binary.")
    if outcome.code != 0:
        words = outcome.output.strip().splitlines()
        raise Refusal(
            f"{name} cannot read {arguments[-1]}: {words[0] if words else f'it ended with code {outcome.code}'}",
            "Get the newest: pip install -U 'ungate[toolchain]'",
        )


def _parsed(cubin: Path, output: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    try:
        header, functions = json.loads(output.read_bytes())
    except ValueError as error:
        raise Refusal(
            f"nvdisasm answered for {cubin.name} with something else than its JSON ({error}).",
            "Get the newest: pip install -U 'ungate[toolchain]'",
        ) from None
    return header, functions


def _resources(text: str) -> Iterator[tuple[str, dict[str, int]]]:
    for name, usage in re.findall(r"^ Function (.+):\n\s+(REG:.*)$", text, re.MULTILINE):
        yield name, {key: int(value) for key, value in re.findall(r"(REG|STACK|SHARED|LOCAL):(\d+)", usage)}


def _kernel(name: str, code: dict[str, Any] | None, symbols: Symbols, usage: Mapping[str, int]) -> Kernel:
    numbers = (usage.get("REG"), usage.get("SHARED"), usage.get("STACK"))
    if code is None:
        return Kernel(name, demangled(name), Effect.UNKNOWN, 0, *numbers, 0, "")
    lines = code["sass-instructions"]
    effect = _effect(lines, symbols.callees.get(name, frozenset()))
    local = sum(line["opcode"].startswith("STL") for line in lines)
    text = "\n".join(f"{line.get('predicate', '')} {line['opcode']} {line.get('operands', '')}" for line in lines)
    digest = hashlib.sha256(text.replace(name, "").encode()).hexdigest()
    return Kernel(name, demangled(name), effect, len(lines), *numbers, local, digest)


def _effect(lines: list[dict[str, Any]], callees: frozenset[str]) -> Effect:
    """The functions a kernel calls stand behind it in its own section, so ``lines`` holds them too."""
    traps = bool(callees & {"__assertfail"})
    beyond = bool(callees - _ONLY_TALK)
    pointer = False
    for line in lines:
        opcode = line["opcode"]
        if opcode.partition(".")[0] in _STORES and not _INTO_BLOCK.match(opcode):
            return Effect.PRESENT
        traps = traps or opcode.startswith(_TRAPS)
        if opcode.startswith("CALL.REL"):
            pointer = pointer or not line.get("operands", "").startswith("$")
        elif opcode.startswith("CALL"):
            pointer = pointer or not callees
    if beyond or pointer:
        return Effect.UNKNOWN
    return Effect.TRAPS if traps or callees & _ONLY_TALK else Effect.HOLLOW
