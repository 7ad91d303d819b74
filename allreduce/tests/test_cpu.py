"""The protocol over real shared memory: threads and processes out of step, formats and sizes in turn, dead ranks."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ungate_allreduce import cpu, reference
from ungate_allreduce.cpu import CpuRank, prepare
from ungate_allreduce.errors import AllreduceError, CallMismatch, PeerTimeout
from ungate_allreduce.layout import Layout
from ungate_allreduce.memory import Segment
from ungate_allreduce.screen import KINDS, draw
from ungate_allreduce.variant import Dtype, Line

MAX_BYTES = 2048
CALLS = tuple(
    (kind, size, dtype, line)
    for kind, size, (dtype, line) in zip(
        KINDS * 3,
        (1, 64, 7, 300, 2, 128, 33, 500) * 3,
        [(dtype, line) for dtype in Dtype for line in (Line.LL8, Line.F16, Line.F16, Line.LL8)] * 2,
        strict=True,
    )
)


def calls(rank: CpuRank, seed: int, shots: int) -> list[str]:
    """All calls on one rank; what was wrong."""
    wrong = []
    for number, (kind, size, dtype, line) in enumerate(CALLS):
        count = min(size, MAX_BYTES // dtype.size)
        message = draw(kind, rank.world, 1, count, dtype, seed + number)
        got = rank.all_reduce(message.inputs[rank.rank], dtype, line, shots=shots if number % 3 else 1)
        want = reference.allreduce(message.inputs, dtype)
        same = (got == want) | (np.isnan(reference.values(got, dtype)) & np.isnan(reference.values(want, dtype)))
        if not same.all():
            wrong.append(f"rank {rank.rank} call {number} {kind} {size} {dtype.name} {line.name}")
    return wrong


def stumble(seed: int) -> Callable[[], None]:
    draws = random.Random(seed)

    def pause() -> None:
        if draws.random() < 0.01:
            time.sleep(draws.random() * 0.001)

    return pause


@pytest.mark.parametrize(("world", "shots"), [(2, 1), (3, 1), (4, 1), (3, 2), (4, 2)])
def test_threads_out_of_step(world: int, shots: int) -> None:
    layout = Layout(world, MAX_BYTES)
    segment = Segment.create(layout.segment_bytes)
    segment.forget_name()
    prepare(segment, layout)
    results: dict[int, Any] = {}

    def work(number: int) -> None:
        rank = CpuRank(segment, layout, number, deadline_s=60.0, pause=stumble(number))
        try:
            results[number] = [fault for turn in range(2) for fault in calls(rank, 1000 * turn, shots)]
        except AllreduceError as error:
            results[number] = error

    threads = [threading.Thread(target=work, args=(number,)) for number in range(world)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert results == {number: [] for number in range(world)}
    segment.close()


def process(path: str, number: int, world: int, die_at: int) -> None:
    """One rank in a process of its own; a line of JSON for each turn."""
    layout = Layout(world, MAX_BYTES)
    segment = Segment.open(path, layout.segment_bytes)
    rank = CpuRank(segment, layout, number, deadline_s=60.0, pause=stumble(number))
    for turn in range(2):
        if turn == die_at:
            rank.deadline_s = 1.0
            if number == world - 1:
                os.kill(os.getpid(), signal.SIGKILL)
        begin = time.monotonic()
        try:
            said = "wrong" if calls(rank, 1000 * turn, 1) else "right"
        except AllreduceError as error:
            said = type(error).__name__
        print(json.dumps([said, time.monotonic() - begin]), flush=True)
        if said not in ("right", "wrong"):
            return


@pytest.mark.parametrize("die_at", [-1, 1])
def test_processes_and_one_that_dies(die_at: int) -> None:
    world = 3
    layout = Layout(world, MAX_BYTES)
    segment = Segment.create(layout.segment_bytes)
    prepare(segment, layout)
    env = {**os.environ, "PYTHONPATH": str(Path(cpu.__file__).parents[1])}
    argv = [sys.executable, __file__, segment.path]
    children = [
        subprocess.Popen([*argv, str(n), str(world), str(die_at)], stdout=subprocess.PIPE, text=True, env=env)
        for n in range(world)
    ]
    heard = [[json.loads(line) for line in child.communicate(timeout=120)[0].splitlines()] for child in children]
    segment.forget_name()
    segment.close()
    assert [words[0][0] for words in heard] == ["right"] * world
    if die_at < 0:
        assert [words[1][0] for words in heard] == ["right"] * world
        return
    assert children[-1].returncode == -signal.SIGKILL
    assert len(heard[-1]) == 1
    for words in heard[:-1]:
        assert words[1][0] == "PeerTimeout"
        assert words[1][1] < 2.0


@pytest.mark.parametrize("line", [Line.LL8, Line.F16])
def test_two_shots_write_every_line_of_a_slot_once(line: Line) -> None:
    """Also the lines a rank owns: else a tag would grow old there, or a sentinel be put back where nothing was."""
    world, elements, turns = 4, 5 * int(line), 3
    layout = Layout(world, MAX_BYTES)
    segment = Segment.create(layout.segment_bytes)
    segment.forget_name()
    prepare(segment, layout)
    ranks = [CpuRank(segment, layout, number, deadline_s=60.0) for number in range(world)]
    stores: list[list[tuple[int, int]]] = [[] for _ in ranks]

    def work(number: int) -> None:
        store = ranks[number]._store

        def count(at: int, words: Any, line: Line, tag: int) -> None:
            stores[number].append((tag, at))
            store(at, words, line, tag)

        ranks[number]._store = count  # type: ignore[method-assign]
        for turn in range(turns):
            message = draw("normal", world, 1, elements, Dtype.FLOAT32, turn)
            ranks[number].all_reduce(message.inputs[number], Dtype.FLOAT32, line, shots=2)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(world)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for number, rank in enumerate(ranks):
        rank.sentinel_calls -= turns
        wanted = []
        for tag in range(1, turns + 1):
            area = layout.slot(number) + rank._area(line, tag)
            wanted += [(tag, area + 16 * index) for index in range(5)]
            rank.sentinel_calls += 1
        assert sorted(stores[number]) == wanted
        if line is Line.F16:
            first = (layout.slot(number) + layout.sentinel_offset) // 4
            assert list(rank.narrow[first : first + 20]) == [cpu.SENTINEL] * 20
    segment.close()


def pair() -> tuple[Segment, list[CpuRank]]:
    layout = Layout(2, MAX_BYTES)
    segment = Segment.create(layout.segment_bytes)
    segment.forget_name()
    prepare(segment, layout)
    return segment, [CpuRank(segment, layout, number, deadline_s=0.2) for number in range(2)]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((64, Dtype.BFLOAT16, Line.LL8), (65, Dtype.BFLOAT16, Line.LL8)),
        ((64, Dtype.BFLOAT16, Line.LL8), (64, Dtype.FLOAT16, Line.LL8)),
    ],
)
def test_ranks_that_call_differently_get_an_error(
    first: tuple[int, Dtype, Line], second: tuple[int, Dtype, Line]
) -> None:
    segment, ranks = pair()
    errors: dict[int, AllreduceError] = {}

    def work(number: int, size: int, dtype: Dtype, line: Line) -> None:
        try:
            ranks[number].all_reduce(draw("normal", 2, 1, size, dtype, 0).inputs[number], dtype, line)
        except AllreduceError as error:
            errors[number] = error

    threads = [threading.Thread(target=work, args=(n, *call)) for n, call in enumerate((first, second))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert set(errors) == {0, 1}
    assert any(isinstance(error, CallMismatch) for error in errors.values())
    segment.close()


def test_a_rank_alone_gives_up_and_its_peer_hears_of_it() -> None:
    segment, ranks = pair()
    tensor = draw("normal", 2, 1, 8, Dtype.FLOAT32, 0).inputs[0]
    begin = time.monotonic()
    with pytest.raises(PeerTimeout, match=r"Rank 1 did not arrive at call 1 within 0\.2 s"):
        ranks[0].all_reduce(tensor, Dtype.FLOAT32, Line.F16)
    assert 0.2 <= time.monotonic() - begin < 2.0
    ranks[1].deadline_s = 60.0
    ranks[1].all_reduce(tensor, Dtype.FLOAT32, Line.F16)  # rank 0's lines of the call are there
    with pytest.raises(PeerTimeout, match="Rank 0 gave up"):
        ranks[1].all_reduce(tensor, Dtype.FLOAT32, Line.F16)
    segment.close()


def test_a_line_without_rearming_would_be_taken_stale() -> None:
    """The check can fail: with its re-arming switched off, the sentinel format returns an old sum."""
    segment, ranks = pair()
    for rank in ranks:
        rank.deadline_s = 30.0
        rank._rearm = lambda line: None  # type: ignore[method-assign]
    wrong: list[str] = []

    def work(number: int) -> None:
        for call in range(12):
            message = draw("normal", 2, 1, 32, Dtype.BFLOAT16, call)
            if number == 1:
                time.sleep(0.002)
            got = ranks[number].all_reduce(message.inputs[number], Dtype.BFLOAT16, Line.F16)
            if (got != reference.allreduce(message.inputs, Dtype.BFLOAT16)).any():
                wrong.append(f"rank {number} call {call}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert wrong
    segment.close()


if __name__ == "__main__":
    process(sys.argv[1], *map(int, sys.argv[2:]))
