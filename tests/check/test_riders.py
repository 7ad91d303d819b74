"""Who rides along with an opened list of majors."""

from __future__ import annotations

from ungate.check import check
from ungate.check.rules.riders import riders_of
from ungate.model import KNOWN_ARCHS, ArchSet, Chain, Form, Gate, Hop, Target


def _gate(passes: set[int], form: Form = Form.INT_LIST, key: str = "a") -> Gate:
    condition = "supported_major_versions=[9, 10]"
    return Gate(key, "p", "d", "1", "d/a.py", 61, 61, "python-version-list", condition, ArchSet.of(passes), form=form)


MAJORS = {each for each in KNOWN_ARCHS if each // 10 in {9, 10}}


def test_a_list_of_capabilities_has_none() -> None:
    assert riders_of(_gate({90, 100}), 120) == ()
    assert riders_of(_gate(MAJORS, Form.PYTHON_EXPRESSION), 120) == ()


def test_a_list_of_majors_lets_in_the_whole_major() -> None:
    assert riders_of(_gate(MAJORS), 120) == (121,)


def test_the_note_says_where_they_are_stopped() -> None:
    gates = (_gate(MAJORS), _gate(set(KNOWN_ARCHS) - {121}, Form.PREPROCESSOR, "b"))
    chain = Chain("f", Target(120), (Hop("jit-module", "d/a.py", 61, "g", True, gates),))
    (finding,) = [each for each in check(chain, Target(120), (), opened=frozenset({"a"})) if each.rule == "riders"]
    assert "sm_121" in finding.what and "stop sm_121" in finding.advice
    assert not [each for each in check(chain, Target(120), ()) if each.rule == "riders"]
