"""What ptxas says, and that it is asked once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ungate.host import assembler
from ungate.model import Target

pytestmark = pytest.mark.toolkit

FINE = ".reg .b32 a;\nmov.b32 a, 1;"
TENSOR = ".reg .b32 a;\ntcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [a], a;"
WAIT = "griddepcontrol.wait;"
BROKEN = "mov.b32 {"
ADDRESS = ".reg .b32 a;\nld.global.b32 a, [a];"  # an error for which no line is given


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("UNGATE_CACHE_DIR", str(tmp_path))
    return tmp_path / "assembler"


def test_each_piece_is_judged_alone() -> None:
    answers = assembler.refusals([FINE, TENSOR, BROKEN, WAIT, ADDRESS, FINE], Target(120, "a"))
    assert answers is not None
    assert [answer is None for answer in answers] == [True, False, False, True, False, True]
    assert "tcgen05.alloc' not supported on .target 'sm_120a'" in str(answers[1])


def test_the_answer_hangs_on_the_target() -> None:
    assert assembler.refusals([TENSOR, WAIT], Target(100, "a")) == (None, None)
    answers = assembler.refusals([WAIT], Target(89))
    assert answers is not None and "requires .target sm_90 or higher" in str(answers[0])


def test_an_answer_is_kept(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = assembler.refusals([FINE, TENSOR], Target(120, "a"))
    (store,) = cache.iterdir()
    assert len(json.loads(store.read_text())) == 2

    def never(*_: object) -> None:
        raise AssertionError("ptxas was asked again")

    monkeypatch.setattr(assembler, "_run", never)
    assert assembler.refusals([TENSOR, FINE], Target(120, "a")) == first[::-1] if first else False


def test_a_broken_store_is_made_anew(cache: Path) -> None:
    assembler.refusals([FINE], Target(120, "a"))
    (store,) = cache.iterdir()
    store.write_text("{")
    assert assembler.refusals([FINE], Target(120, "a")) == (None,)


def test_a_target_that_ptxas_does_not_know() -> None:
    assert assembler.refusals([FINE], Target(50)) is None  # no toolkit since 13.0 has it


def test_nothing_to_judge() -> None:
    assert assembler.refusals([], Target(120)) == ()
