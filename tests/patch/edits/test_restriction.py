"""A condition under which the admitted archs pass; all others behave as before."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.patch.site import story

from ungate.model import ArchSet, Form, Gate, Sense, Target
from ungate.patch import open_series
from ungate.patch.content import apply, by_file
from ungate.patch.edits import Place, Unopenable, opening

_FUNCTION = "LIMIT = 4\ndef f(size, tp, *, sm):\n    wide = size * 2\n    return {}\n    late = 1\n"


def _opened(expression: str, when: str, *, sense: Sense = Sense.ALLOW, form: Form = Form.PYTHON_EXPRESSION) -> str:
    content = _FUNCTION.format(expression).encode() if form is Form.PYTHON_EXPRESSION else expression.encode()
    start = content.index(expression.encode())
    gate = Gate(
        "g", "p", "pkg", "1", "m.py", 4, 4, "k", expression, ArchSet.of({90}), "test", form,
        (start, start + len(expression)), sense,
    )  # fmt: skip
    made = opening(Place(gate, content, frozenset({120}), Path("/nowhere"), (), when))
    out, at = b"", 0
    for each in sorted(made.replacements, key=lambda r: (r.start, r.end)):
        out, at = out + content[at : each.start] + each.new, each.end
    return (out + content[at:]).decode()


@pytest.mark.parametrize(
    ("expression", "when", "after"),
    [
        ("sm == 90", "size <= 64", "return sm == 90 or (sm == 120 and size <= 64)"),
        ("size > 0 and sm == 90", "tp in (2, 4)", "return size > 0 and (sm == 90 or (sm == 120 and tp in (2, 4)))"),
        (
            "sm in (90, 100)",
            "tp == 2 or wide < LIMIT",
            "return sm in (90, 100) or (sm == 120 and (tp == 2 or wide < LIMIT))",
        ),
    ],
)
def test_the_condition_stands_beside_the_addition_alone(expression: str, when: str, after: str) -> None:
    text = _opened(expression, when)
    assert after in text
    for arch in (90, 100, 120, 121):
        for size in (1, 64, 65):
            for tp in (1, 2):
                values: list[bool] = []
                for source in (_FUNCTION.format(expression), text):
                    world: dict[str, object] = {}
                    exec(source, world)
                    values.append(world["f"](size, tp, sm=arch))  # type: ignore[operator]
                allowed = eval(when, {"size": size, "tp": tp, "wide": size * 2, "LIMIT": 4})
                assert values[1] == (bool(allowed) if arch == 120 else values[0])


def test_a_refusal_gives_way_only_while_the_condition_holds() -> None:
    assert "return sm != 90 and not (sm == 120 and size <= 64)" in _opened("sm != 90", "size <= 64", sense=Sense.REFUSE)


def test_a_host_condition() -> None:
    edited = _opened("sm == 90", "numTokens <= 64", form=Form.HOST_EXPRESSION)
    assert edited == "sm == 90 || (sm == 120 && (numTokens <= 64))"


@pytest.mark.parametrize(
    ("when", "reason"),
    [
        ("size <=", "no Python expression"),
        ("late == 1", "'late' of the condition is not known"),
        ("rank == 0", "'rank' of the condition is not known"),
        ("open('x')", "does more than compare"),
        ("(lambda: 1)", "does more than compare"),
        ("size * 2 < 4", "does more than compare"),
    ],
)
def test_a_condition_compares_known_names_and_does_nothing_else(when: str, reason: str) -> None:
    with pytest.raises(Unopenable, match=reason):
        _opened("sm == 90", when)


@pytest.mark.parametrize("when", ["system(1)", "a; b", "x = 1", "(a", "f (a)"])
def test_a_host_condition_compares_and_does_nothing_else(when: str) -> None:
    with pytest.raises(Unopenable, match="does more than compare"):
        _opened("sm == 90", when, form=Form.HOST_EXPRESSION)


def test_a_list_has_no_room_for_a_condition(tmp_path: Path) -> None:
    packages, gates = story(tmp_path)
    when = {"engine/fuse.py": "size <= 64", "kernels/jit.py": "size <= 64"}
    series = open_series("story", gates, Target(120), packages, when=when)
    assert [(g.file, "no room" in reason) for g, reason in series.refused] == [("kernels/jit.py", True)]
    fuse = apply((tmp_path / "engine/fuse.py").read_bytes(), by_file(series.edits)["engine/fuse.py"]).decode()
    assert "(is_sm90() or is_sm100() or (is_sm120() and size <= 64))" in fuse
