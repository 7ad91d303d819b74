"""Which gate gives a name its value, and which only reads it.

A flag that says what the hardware is (``_is_sm90_supported = …``) keeps its value, and the expression that decides by
it is opened. A name that says what is wanted (``use_fused_allreduce()``, ``ENABLE_FLASHINFER_GEMM``) is opened where it
gets its value, and what reads it follows: opening the reader too would switch off the other terms of the definition.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence

from ungate.model import Gate
from ungate.patch.edits import Unopenable
from ungate.patch.edits._imports import Module

__all__ = ["flags", "followers", "gives"]

_ARCH_NAMED = re.compile(r"(?i)sm_?\d{2,3}|blackwell|hopper|ampere|(?:^|_)ada(?:_|$)|turing|compute_?cap")


def gives(gate: Gate, content: bytes) -> frozenset[str]:
    """The names that the gate's text decides: its function, and what the assignment around it binds."""
    found = {gate.symbol.rsplit(".", 1)[-1]} if gate.symbol else set()
    if gate.file.endswith(".py") and gate.span != (0, 0):
        line = content.count(b"\n", 0, gate.span[0]) + 1
        try:
            tree = Module.read(content).tree
        except Unopenable:
            return frozenset(found)
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and node.lineno <= line <= (node.end_lineno or node.lineno):
                targets = (name for target in node.targets for name in ast.walk(target))
                found |= {
                    n.id if isinstance(n, ast.Name) else n.attr
                    for n in targets
                    if isinstance(n, ast.Name | ast.Attribute)
                }
    return frozenset(found)


def flags(gates: Sequence[Gate], given: Mapping[str, frozenset[str]]) -> dict[str, str]:
    """Gates (by id) that give a hardware flag its value while another gate decides by it, with the flag's name."""
    found: dict[str, str] = {}
    for reader in gates:
        for name in reader.names:
            if _ARCH_NAMED.search(name):
                for giver in gates:
                    if giver is not reader and giver.package == reader.package and name in given[giver.id]:
                        found[giver.id] = name
    return found


def followers(gates: Sequence[Gate], given: Mapping[str, frozenset[str]]) -> dict[str, str]:
    """Gates (by id) that read nothing but names which other gates of the series decide, with the id of one of those."""
    found: dict[str, str] = {}
    for reader in gates:
        givers = {}
        for name in reader.names:
            if not _ARCH_NAMED.search(name):
                giver = next(
                    (g for g in gates if g is not reader and g.package == reader.package and name in given[g.id]), None
                )
                if giver is not None:
                    givers[name] = giver.id
        if givers and set(reader.names) <= set(givers):
            found[reader.id] = next(iter(givers.values()))
    # two gates that would follow each other stand for themselves
    return {reader: giver for reader, giver in found.items() if found.get(giver) != reader}
