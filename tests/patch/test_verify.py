"""The second scan has the last word."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.patch.site import story

from ungate.model import ArchSet, Gate, Series, Target
from ungate.patch import open_series, verify


def _opened(tmp_path: Path) -> tuple[Series, tuple[Gate, ...], tuple[Gate, ...]]:
    packages, gates = story(tmp_path)
    series = open_series("story", gates, Target(120), packages)
    after = tuple(replace(g, id=f"new{i}", passes=ArchSet(g.passes.yes | {120, 121})) for i, g in enumerate(gates))
    return series, gates, after


def test_exactly_the_asked_gates_open_for_exactly_the_named_archs(tmp_path: Path) -> None:
    series, before, after = _opened(tmp_path)
    assert verify(series, before, after) == ()


def test_a_gate_that_stayed_closed_is_a_danger(tmp_path: Path) -> None:
    series, before, after = _opened(tmp_path)
    findings = verify(series, before, (*after[:1], before[1], *after[2:]))
    assert [(f.severity, f.file) for f in findings] == [("danger", before[1].file)]
    assert "should let" in findings[0].what


def test_an_arch_that_slipped_in_or_fell_out_is_a_danger(tmp_path: Path) -> None:
    series, before, after = _opened(tmp_path)
    for archs in ({90, 100, 103, 107, 120, 121, 110}, {100, 103, 107, 120, 121}, {90, 100, 103, 107, 120}):
        assert len(verify(series, before, (replace(after[0], passes=ArchSet.of(archs)), *after[1:]))) == 1
    assert len(verify(series, before, (replace(after[0], passes=ArchSet.undecided()), *after[1:]))) == 1


def test_a_neighbour_that_changed_a_lost_gate_and_a_new_one_are_dangers(tmp_path: Path) -> None:
    series, before, after = _opened(tmp_path)
    neighbour = replace(before[2], id="other", symbol="other", passes=ArchSet.of({80}))
    assert verify(series, (*before, neighbour), (*after, neighbour)) == ()
    changed = verify(series, (*before, neighbour), (*after, replace(neighbour, passes=ArchSet.of({80, 90}))))
    assert "was not edited" in changed[0].what
    assert "no longer found" in verify(series, (*before, neighbour), after)[0].what
    assert "was not there" in verify(series, before, (*after, neighbour))[0].what
    follower = replace(neighbour, role="use", names=("fused",))
    for archs, ok in (({80, 120}, True), (set(), False), ({80, 90}, False)):
        found = verify(series, (*before, follower), (*after, replace(follower, passes=ArchSet.of(archs))))
        assert (found == ()) is ok
    elsewhere = replace(neighbour, file="kernels/other.py")
    assert verify(series, before, (*after, elsewhere)) == ()


def test_a_gate_inside_a_text_that_was_inserted_has_no_twin(tmp_path: Path) -> None:
    series, before, after = _opened(tmp_path)
    edit = next(edit for edit in series.edits if edit.file == "kernels/include/fused.cuh" and edit.start == edit.end)
    inner = replace(after[2], id="inner", symbol="inner", span=(edit.start + 1, edit.start + len(edit.new) - 1))
    assert verify(series, before, (*after, inner)) == ()
    outer = replace(inner, span=(edit.start - 1, edit.start + len(edit.new)))
    assert "was not there" in verify(series, before, (*after, outer))[0].what
