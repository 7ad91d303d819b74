from __future__ import annotations

import ctypes
import re
from itertools import pairwise

import pytest

from ungate_allreduce.compile import sources
from ungate_allreduce.launch import ADDRESSES, NUMBERS, STATE_BUDGET_OFFSET, STATE_BYTES, launch_type, params_type
from ungate_allreduce.layout import (
    CELL_BYTES,
    CONTROL_BYTES,
    HEADER_LINES,
    MEETING_OFFSET,
    REPORT_OFFSET,
    SENTINEL_GENERATIONS,
    Layout,
)
from ungate_allreduce.variant import MAX_WORLD, Line, up


@pytest.mark.parametrize("world", [2, 3, 4, 8, 16])
@pytest.mark.parametrize("max_bytes", [8, 1000, 512 << 10])
def test_areas_of_a_slot_do_not_meet(world: int, max_bytes: int) -> None:
    layout = Layout(world, max_bytes)
    spans = [(layout.header(tag), HEADER_LINES * CELL_BYTES) for tag in (0, 1)]
    for generation in (0, 1):
        at = layout.tagged_offset + generation * layout.tagged_generation
        spans.append((at, 16 * layout.capacity(Line.LL8)))
    for generation in range(SENTINEL_GENERATIONS):
        at = layout.sentinel_offset + generation * layout.sentinel_generation
        spans.append((at, 16 * layout.capacity(Line.F16)))
    spans.sort()
    for (start, size), (following, _) in pairwise(spans):
        assert start + size <= following
    assert spans[-1][0] + spans[-1][1] <= layout.slot_bytes
    assert layout.slot(world - 1) + layout.slot_bytes == layout.segment_bytes


def test_two_shots_need_no_room_of_their_own() -> None:
    assert Layout(8, 64 << 10).slot_bytes == Layout(2, 64 << 10).slot_bytes


def test_a_message_of_max_bytes_fits_in_every_format() -> None:
    layout = Layout(2, 4096)
    assert layout.capacity(Line.LL8) * 8 >= 4096
    assert layout.capacity(Line.F12) * 12 >= 4096
    assert layout.capacity(Line.F16) * 16 >= 4096


def test_control_words_have_a_cache_line_each() -> None:
    assert REPORT_OFFSET + CELL_BYTES * MAX_WORLD <= MEETING_OFFSET
    assert MEETING_OFFSET + CELL_BYTES * MAX_WORLD <= CONTROL_BYTES


def test_launch_argument_is_laid_out_as_the_kernel_reads_it() -> None:
    body = re.search(r"struct Params \{(.*?)\n\};", sources()["control.cuh"], re.DOTALL)
    assert body is not None
    names = re.findall(r"^\s+(?:const )?[\w ]+?[\s*]+(\w+)(?:\[\w+\])?;", body[1], re.MULTILINE)
    assert names == [*ADDRESSES, "source", "target", *NUMBERS, "epsilon", "inverse_hidden"]
    made = params_type(3, 1)
    assert made.source.offset == 8 * len(ADDRESSES)
    assert ctypes.sizeof(made) == 8 * (len(ADDRESSES) + 3 + 1) + 8 * up(4 * (len(NUMBERS) + 2), 8)
    assert ctypes.sizeof(launch_type(3, 1, 4)) == 4 * ctypes.sizeof(made)


def test_state_is_laid_out_as_the_kernel_reads_it() -> None:
    source = sources()["control.cuh"]
    body = re.search(r"struct __align__\(16\) State \{(.*?)\n\};", source, re.DOTALL)
    assert body is not None
    offset = 0
    for kind, name, count in re.findall(r"^\s+(u32|u64) (\w+)(?:\[(\d+)\])?;", body[1], re.MULTILINE):
        size = 4 if kind == "u32" else 8
        if name == "budget_ns":
            assert offset == STATE_BUDGET_OFFSET
        offset += size * int(count or 1)
    assert offset == STATE_BYTES
    assert f"#define GENERATIONS {SENTINEL_GENERATIONS}u" in source
    assert f"#define HEADERS {HEADER_LINES}u" in source
