"""Which instructions a function consists of, without disassembling all of it.

Since sm_70 an instruction has 128 bits, and its low 12 bits are the opcode. What an opcode is called is not kept in a
table here: nvdisasm is asked about the few functions that together hold every opcode of the binary. (On FlashInfer's
921 kernels of ``trtllm_allreduce.cu`` these are 8 functions of 43 KB out of 4.9 MB.) An opcode that goes by two
names would make this way unsound; then the whole binary is disassembled.
"""

from __future__ import annotations

import json
import struct
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ungate.build.cubins import Function
from ungate.errors import Refusal
from ungate.host import children, toolchain

__all__ = ["Instruction", "Listing", "counted", "disassemble", "mnemonics"]

_DEADLINE_S = 600.0
_AT_ONCE = 2000  # symbol numbers on one command line


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction as nvdisasm prints it: ``STG.E`` and ``desc[UR4][R2.64],R5``."""

    opcode: str
    operands: str


@dataclass(frozen=True, slots=True)
class Listing:
    """``code`` maps a function to its instructions; ``header`` is what nvdisasm says of the whole image."""

    header: Mapping[str, Any]
    code: Mapping[str, tuple[Instruction, ...]]


def _codes(function: Function) -> tuple[int, ...]:
    words = struct.unpack(f"<{len(function.code) // 8}Q", function.code[: len(function.code) // 8 * 8])
    return tuple(word & 0xFFF for word in words[::2])


def counted(functions: Sequence[Function]) -> dict[str, Counter[int]]:
    """How often each opcode (12 bits) stands in each function."""
    return {function.name: Counter(_codes(function)) for function in functions}


def disassemble(cubin: Path, functions: Iterable[Function]) -> Listing:
    """What nvdisasm prints of these functions; Refusal where it fails or is too old to print JSON."""
    chosen = list(functions)
    header: Mapping[str, Any] = {}
    code: dict[str, tuple[Instruction, ...]] = {}
    for start in range(0, max(len(chosen), 1), _AT_ONCE):
        part, lines = _run(cubin, chosen[start : start + _AT_ONCE])
        header = part
        code |= lines
    return Listing(header, code)


def _run(cubin: Path, chosen: Sequence[Function]) -> tuple[dict[str, Any], dict[str, tuple[Instruction, ...]]]:
    which = ["-fun", ",".join(str(function.index) for function in chosen)] if chosen else []
    advice = "Get the newest: pip install -U 'ungate[toolchain]'"
    with tempfile.TemporaryDirectory(prefix="ungate-sass-") as name:
        output = Path(name) / "code.json"
        command: list[str | Path] = [toolchain.need("nvdisasm"), "-json", *which, cubin]
        outcome = children.run(command, deadline_s=_DEADLINE_S, stdout=output)
        if outcome.timed_out:
            raise Refusal(f"nvdisasm did not end within {_DEADLINE_S:.0f} s on {cubin.name}.", "Read a smaller binary.")
        if outcome.code != 0:
            words = outcome.output.strip().splitlines() or [f"it ended with code {outcome.code}"]
            raise Refusal(f"nvdisasm cannot read {cubin.name}: {words[0]}", advice)
        try:
            header, functions = json.loads(output.read_bytes())
        except ValueError as error:
            raise Refusal(f"nvdisasm answered for {cubin.name} with no JSON ({error}).", advice) from None
    code = {
        str(function["function-name"]): tuple(
            Instruction(line["opcode"], line.get("operands") or "") for line in function["sass-instructions"]
        )
        for function in functions
    }
    return header, code


def mnemonics(cubin: Path, functions: Sequence[Function]) -> tuple[dict[int, str], Listing] | None:
    """What each opcode of these functions is called (``STG``), and the listing it was learned from.

    None where an opcode goes by two names, or where nvdisasm's listing does not match the code.
    """
    held = {function.name: frozenset(_codes(function)) for function in functions}
    left = set().union(*held.values()) if held else set()
    chosen: list[Function] = []
    while left:
        # The function that adds most for its length; the constant keeps tiny ones from being taken one by one.
        best = max(functions, key=lambda function: len(held[function.name] & left) / (len(function.code) + 2048))
        chosen.append(best)
        left -= held[best.name]
    listing = disassemble(cubin, chosen) if chosen else Listing({}, {})
    known: dict[int, str] = {}
    for function in chosen:
        lines, codes = listing.code.get(function.name, ()), _codes(function)
        if len(lines) != len(codes):
            return None
        for line, code in zip(lines, codes, strict=True):
            name = line.opcode.partition(".")[0]
            if known.setdefault(code, name) != name:
                return None
    return known, listing
