from __future__ import annotations

from collections.abc import Iterator

import pytest

from ungate.launch import memory

GIB = 1 << 30


def series(*readings: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    yield from readings
    while True:
        yield readings[-1]


@pytest.mark.parametrize(
    ("readings", "left"),
    [
        ([(1 * GIB,)], (0,)),
        ([(9 * GIB,), (5 * GIB,), (1 * GIB,)], (0,)),
        ([(9 * GIB,), (4 * GIB,)], (3 * GIB,)),
        ([(1 * GIB + 1000,)], (0,)),
        ([()], None),
    ],
)
def test_memory_is_awaited_until_it_no_longer_shrinks(
    readings: list[tuple[int, ...]], left: tuple[int, ...] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = series(*readings)
    monkeypatch.setattr(memory, "used", lambda: next(source))
    monkeypatch.setattr(memory, "_TICK_S", 0.0)
    assert memory.left((1 * GIB,)) == left


def test_without_a_reading_before_nothing_is_known() -> None:
    assert memory.left(()) is None
