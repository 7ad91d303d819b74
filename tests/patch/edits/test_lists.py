"""Lists of majors, capabilities, pairs, names, and tables keyed by them."""

from __future__ import annotations

import pytest
from tests.patch.edits.opened import opened

from ungate.model import Form, Sense
from ungate.patch.edits import Unopenable

_BOTH = frozenset({120, 121})
_ONE = frozenset({120})


@pytest.mark.parametrize(
    ("form", "before", "after", "admits"),
    [
        (Form.INT_LIST, "[9, 10]", "[9, 10, 12]", _BOTH),
        (Form.INT_LIST, "[9,10]", "[9,10,12]", _BOTH),
        (Form.INT_LIST, "(10,)", "(10, 12)", _BOTH),
        (Form.INT_LIST, "{100, 103}", "{100, 103, 120}", _ONE),
        (Form.INT_LIST, "[100]", "[100, 120]", _ONE),
        (Form.INT_LIST, "[\n    90,  # H100\n    100,\n]", "[\n    90,  # H100\n    100,\n    120,\n]", _ONE),
        (Form.INT_LIST, "[\n    90\n]", "[\n    90,\n    120\n]", _ONE),
        (Form.INT_LIST, "[90, 100, 121]", "[90, 100, 120, 121]", _ONE),
        (Form.INT_LIST, "[121, 90]", "[121, 90, 120]", _ONE),
        (Form.INT_LIST, "{900, 1000}", "{900, 1000, 1200}", _ONE),
        (Form.INT_LIST, "frozenset({9, 10})", "frozenset({9, 10, 12})", _BOTH),
        (Form.TUPLE_LIST, "[(9, 0), (10, 0)]", "[(9, 0), (10, 0), (12, 0)]", _ONE),
        (Form.TUPLE_LIST, "((9, 0),)", "((9, 0), (12, 0))", _ONE),
        (Form.STRING_LIST, '("sm_90a", "sm_100a")', '("sm_90a", "sm_100a", "sm_120a")', _ONE),
        (Form.STRING_LIST, '["sm_90a", "sm_100f"]', '["sm_90a", "sm_100f", "sm_120a"]', _ONE),
        (Form.STRING_LIST, "['9.0', '10.0']", "['9.0', '10.0', '12.0']", _ONE),
        (Form.STRING_LIST, '"9.0 10.0"', '"9.0 10.0 12.0"', _ONE),
        (Form.STRING_LIST, '"90;100a"', '"90;100a;120a"', _ONE),
        (
            Form.STRING_LIST,
            '["-gencode=arch=compute_90a,code=sm_90a"]',
            '["-gencode=arch=compute_90a,code=sm_90a", "-gencode=arch=compute_120a,code=sm_120a"]',
            _ONE,
        ),
        (
            Form.TABLE,
            '{"9.0": {2: 1}, "10.0": {2: 4, 4: 8}}',
            '{"9.0": {2: 1}, "10.0": {2: 4, 4: 8}, "12.0": {2: 4, 4: 8}}',
            _ONE,
        ),
        (Form.TABLE, "{90: f, 100: g}", "{90: f, 100: g, 120: g}", _ONE),
        (Form.TABLE, "{9: f, 10: g}", "{9: f, 10: g, 12: g}", _BOTH),
        (Form.TABLE, "{(9, 0): f}", "{(9, 0): f, (12, 0): f}", _ONE),
        (
            Form.TABLE,
            '{\n    "sm_90": Config(a=1),\n    "sm_100": Config(a=2),\n}',
            '{\n    "sm_90": Config(a=1),\n    "sm_100": Config(a=2),\n    "sm_120": Config(a=2),\n}',
            _ONE,
        ),
    ],
)
def test_a_list_gains_the_target_and_keeps_its_formatting(
    form: Form, before: str, after: str, admits: frozenset[int]
) -> None:
    text, admitted = opened(f"x = f({before}, 1)\n", before, form)
    assert text == f"x = f({after}, 1)\n"
    assert admitted == admits


@pytest.mark.parametrize(
    ("form", "before", "after"),
    [
        (Form.INT_LIST, "[11, 12]", "[11]"),
        (Form.INT_LIST, "(12, 13)", "(13,)"),
        (Form.INT_LIST, "[12]", "[]"),
        (Form.INT_LIST, "{120}", "set()"),
        (Form.INT_LIST, "[110, 120, 121]", "[110, 121]"),
        (Form.TUPLE_LIST, "[(12, 0), (12, 1)]", "[(12, 1)]"),
        (Form.STRING_LIST, "['sm_120', 'sm_121']", "['sm_121']"),
    ],
)
def test_a_list_of_what_is_refused_loses_the_target(form: Form, before: str, after: str) -> None:
    text, _ = opened(f"if x in {before}: raise\n", before, form, sense=Sense.REFUSE)
    assert text == f"if x in {after}: raise\n"


@pytest.mark.parametrize(
    ("form", "before", "reason"),
    [
        (Form.INT_LIST, "supported", "holds no list"),
        (Form.INT_LIST, "[a, b]", "no plain number"),
        (Form.INT_LIST, "[9, 100]", "not of one kind"),
        (Form.INT_LIST, "[9, 12]", "names the target already"),
        (Form.STRING_LIST, '"sm_90"', "is no list"),
        (Form.STRING_LIST, "[x]", "names one architecture"),
        (Form.TABLE, '{"auto": 1}', "names an architecture"),
    ],
)
def test_a_list_that_cannot_be_read_is_refused_with_the_reason(form: Form, before: str, reason: str) -> None:
    with pytest.raises(Unopenable, match=reason):
        opened(f"x = {before}\n", before, form)
