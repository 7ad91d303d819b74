"""The argument of a launch, laid out as ``struct Params`` in ``kernels/control.cuh`` is."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from .layout import CELL_BYTES, Layout
from .slots import Slots
from .variant import Variant

__all__ = ["STATE_BUDGET_OFFSET", "STATE_BYTES", "Own", "fill", "launch_type", "params_type"]

STATE_BYTES = 64
STATE_BUDGET_OFFSET = 48
ADDRESSES = (
    "input",
    "residual",
    "weight",
    "scale",
    "out",
    "residual_out",
    "quant_out",
    "scale_out",
    "state",
    "partials",
    "report",
    "reports",
    "tagged_offset",
    "tagged_generation",
    "sentinel_offset",
    "sentinel_generation",
)
NUMBERS = ("rank", "rows", "lines", "tagged_lines", "describe")


@cache
def params_type(world: int, targets: int) -> type[ctypes.Structure]:
    """Params for a kernel of this world and number of copies."""
    fields: list[tuple[str, Any]] = [(name, ctypes.c_uint64) for name in ADDRESSES]
    fields += [("source", ctypes.c_uint64 * world), ("target", ctypes.c_uint64 * targets)]
    fields += [(name, ctypes.c_uint32) for name in NUMBERS]
    fields += [("epsilon", ctypes.c_float), ("inverse_hidden", ctypes.c_float)]
    return type("Params", (ctypes.Structure,), {"_fields_": fields})


@cache
def launch_type(world: int, targets: int, virtual: int) -> type[ctypes.Structure]:
    """The kernel's one argument: Params of each virtual rank (one outside tests)."""
    return type("Launch", (ctypes.Structure,), {"_fields_": [("rank", params_type(world, targets) * virtual)]})


@dataclass(frozen=True)
class Own:
    """Device addresses of what one rank owns: counters, cells of split rows, and the first report word."""

    rank: int
    state: int
    partials: int
    reports: int


def fill(
    params: Any,
    layout: Layout,
    slots: Slots,
    own: Own,
    variant: Variant,
    rows: int,
    addresses: Mapping[str, int],
    epsilon: float,
) -> None:
    """Fill one Params structure for a call of one rank. ``addresses`` are tensors by the names of Params."""
    for name, address in addresses.items():
        setattr(params, name, address)
    params.state = own.state
    params.partials = own.partials
    params.reports = own.reports
    params.report = own.reports + CELL_BYTES * own.rank
    params.tagged_offset, params.tagged_generation = layout.tagged_offset, layout.tagged_generation
    params.tagged_lines = layout.tagged_lines
    params.sentinel_offset, params.sentinel_generation = layout.sentinel_offset, layout.sentinel_generation
    if variant.world > 1:
        params.source[:] = slots.source
        params.target[:] = slots.target if variant.push else slots.target[own.rank : own.rank + 1]
    params.rank, params.rows, params.lines = own.rank, rows, variant.lines(rows)
    params.describe = variant.identity()
    params.epsilon = epsilon
    params.inverse_hidden = 1.0 / variant.hidden if variant.hidden else 0.0
