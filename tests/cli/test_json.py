from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ungate.cli._json import indented
from ungate.model import ArchSet, Finding, Status, Target
from ungate.plain import plain

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["\ud800", 'é\n\t"\\']),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=30,
)


@given(_VALUES)
def test_the_text_is_that_of_the_standard_library(value: object) -> None:
    assert indented(value) == json.dumps(value, indent=1)


def test_records_are_written_as_they_are_made_plain() -> None:
    value = {
        "path": Path("a/b"),
        1: (Target(120, "a"), Status.OPEN, b"\xff"),
        "set": {"b", "a"},
        "archs": [ArchSet.of([90, 80]), ArchSet.undecided()],
        "finding": Finding("rule", "note", "what", "advice"),
        "empty": [{}, [], ()],
    }
    assert indented(value) == json.dumps(plain(value), indent=1)


def test_what_is_no_json_is_refused() -> None:
    with pytest.raises(TypeError):
        indented({"a": object()})
