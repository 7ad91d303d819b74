"""Python expressions, judged by evaluating them for every architecture before and after the edit."""

# ruff: noqa: E501

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from tests.patch.edits.opened import opened

from ungate.model import KNOWN_ARCHS, Form, Sense
from ungate.patch.edits import Unopenable


@dataclass(frozen=True)
class Case:
    """``statement`` is one line of source, ``deciding`` the span in it; ``after`` the statement that is expected."""

    statement: str
    deciding: str
    after: str
    wanted: tuple[int, ...] = (120, 121)
    names: tuple[str, ...] = ()
    sense: Sense = Sense.ALLOW
    passes: tuple[int, ...] = ()
    free: dict[str, Any] = field(default_factory=dict)


_PREDICATES = """import torch
def is_sm90():
    major, _ = torch.cuda.get_device_capability()
    return major == 9
def is_sm100():
    major, _ = torch.cuda.get_device_capability()
    return major == 10
def is_sm120():
    major, _ = torch.cuda.get_device_capability()
    return major == 12
"""


def _world(arch: int) -> dict[str, Any]:
    major, minor = divmod(arch, 10)
    cuda = SimpleNamespace(is_available=lambda: True, get_device_capability=lambda: (major, minor))
    platform = SimpleNamespace(
        is_device_capability=lambda x: x in (arch, (major, minor)),
        is_device_capability_family=lambda x: x // 10 == major,
        has_device_capability=lambda x: arch >= x,
    )
    return {
        "torch": SimpleNamespace(cuda=cuda, version=SimpleNamespace(hip=None)),
        "major": major, "minor": minor, "sm": arch, "cc": (major, minor), "capability": (major, minor),
        "is_sm90": lambda: major == 9, "is_sm100": lambda: major == 10, "is_sm120": lambda: major == 12,
        "platform": platform, "arch": f"sm_{arch}", "size": 5, "on": True, "name": "llama",
    }  # fmt: skip


_SM = ("is_sm90", "is_sm100")
_CASES = [
    Case("if is_sm90() or is_sm100():", "is_sm90() or is_sm100()", "if is_sm90() or is_sm100() or is_sm120():", names=_SM),
    Case("if is_sm100():", "is_sm100()", "if is_sm100() or is_sm120():", names=_SM),
    Case("if on and is_sm100():", "on and is_sm100()", "if on and (is_sm100() or is_sm120()):", names=_SM),
    Case("if on and is_sm100():", "is_sm100()", "if on and (is_sm100() or is_sm120()):", names=_SM),
    Case("if on and (is_sm90() or is_sm100()) and size > 3:", "on and (is_sm90() or is_sm100()) and size > 3",
         "if on and (is_sm90() or is_sm100() or is_sm120()) and size > 3:", names=_SM),
    Case("if not is_sm100():", "not is_sm100()", "if not (is_sm100() or is_sm120()):", names=_SM, sense=Sense.REFUSE),
    Case("if not (is_sm90() or is_sm100()):", "is_sm90() or is_sm100()", "if not (is_sm90() or is_sm100() or is_sm120()):", names=_SM),
    Case("if not on or not is_sm100():", "not on or not is_sm100()", "if not on or not (is_sm100() or is_sm120()):", names=_SM, sense=Sense.REFUSE),
    Case("x = is_sm100()", "is_sm100()", "x = is_sm100() or is_sm120()", names=_SM),
    Case("f(is_sm100(), 3)", "is_sm100()", "f((is_sm100() or is_sm120()), 3)", names=_SM),
    Case("if major == 10:", "major == 10", "if major in (10, 12):"),
    Case("if cc == (9, 0):", "cc == (9, 0)", "if cc in ((9, 0), (12, 0), (12, 1)):"),
    Case("if sm == 100:", "sm == 100", "if sm in (100, 121):", wanted=(121,)),
    Case("if major in (9, 10):", "major in (9, 10)", "if major in (9, 10, 12):"),
    Case("if sm in [90, 100]:", "sm in [90, 100]", "if sm in [90, 100, 120]:", wanted=(120,)),
    Case("if cc in ((9, 0), (10, 0)):", "cc in ((9, 0), (10, 0))", "if cc in ((9, 0), (10, 0), (12, 0)):", wanted=(120,)),
    Case("if sm >= 90 and sm < 110:", "sm >= 90 and sm < 110", "if (sm >= 90 and sm < 110) or sm in (120, 121):"),
    Case("if 90 <= sm < 110:", "90 <= sm < 110", "if 90 <= sm < 110 or sm in (120, 121):"),
    Case("if on and sm >= 90 and sm < 110:", "on and sm >= 90 and sm < 110",
         "if on and ((sm >= 90 and sm < 110) or sm in (120, 121)):"),
    Case("if (9, 0) <= cc < (11, 0):", "(9, 0) <= cc < (11, 0)", "if (9, 0) <= cc < (11, 0) or cc in ((12, 0), (12, 1)):"),
    Case("if major == 12 and minor == 0:", "major == 12 and minor == 0", "if (major == 12 and minor == 0) or major == 12:"),
    Case("if cc is not None and cc[0] == 9:", "cc is not None and cc[0] == 9", "if cc is not None and cc[0] in (9, 12):", names=("cc",)),
    Case("if sm * 10 == 1000:", "sm * 10 == 1000", "if sm * 10 in (1000, 1200, 1210):"),
    Case("if major != 10:", "major != 10", "if major not in (10, 12):", sense=Sense.REFUSE),
    Case("if major not in (9, 10):", "major not in (9, 10)", "if major not in (9, 10, 12):", sense=Sense.REFUSE),
    Case("if sm < 90 or sm >= 120:", "sm < 90 or sm >= 120", "if (sm < 90 or sm >= 120) and not (sm in (120, 121)):", sense=Sense.REFUSE),
    Case("if major > 10:", "major > 10", "if major > 10 and not (major == 12):", sense=Sense.REFUSE),
    Case("if on and major > 10:", "on and major > 10", "if on and major > 10 and not (major == 12):", sense=Sense.REFUSE),
    Case("if platform.is_device_capability(100):", "platform.is_device_capability(100)",
         "if platform.is_device_capability(100) or platform.is_device_capability(120) or platform.is_device_capability(121):"),
    Case("if platform.is_device_capability((9, 0)):", "platform.is_device_capability((9, 0))",
         "if platform.is_device_capability((9, 0)) or platform.is_device_capability((12, 0)):", wanted=(120,)),
    Case("if platform.is_device_capability_family(100):", "platform.is_device_capability_family(100)",
         "if platform.is_device_capability_family(100) or platform.is_device_capability_family(120):", wanted=(120,)),
    Case("if on and not platform.has_device_capability(110):", "on and not platform.has_device_capability(110)",
         "if on and not (platform.has_device_capability(110) and not (torch.version.hip is None and "
         "torch.cuda.is_available() and torch.cuda.get_device_capability()[0] == 12)):"),
    Case("if (is_sm100() and on) or (is_sm90() and size > 3):", "(is_sm100() and on) or (is_sm90() and size > 3)",
         "if ((is_sm100() or is_sm120()) and on) or (is_sm90() and size > 3):", names=_SM),
    Case("if arch == 'sm_100':", "arch == 'sm_100'", "if arch in ('sm_100', 'sm_120', 'sm_121'):"),
    Case("if arch in ('sm_90', 'sm_100'):", "arch in ('sm_90', 'sm_100')", "if arch in ('sm_90', 'sm_100', 'sm_120'):", wanted=(120,)),
    Case("if arch != 'sm_100':", "arch != 'sm_100'", "if arch not in ('sm_100', 'sm_120'):", wanted=(120,), sense=Sense.REFUSE),
    Case("if (on and sm < 80) or (not on and sm < 90):", "on and sm < 80) or (not on and sm < 90", "if (on and sm < 80 and not (sm == 75)) or (not on and sm < 90 and not (sm == 75)):", wanted=(75,), sense=Sense.REFUSE),
    Case("if name == 'llama' and bool(is_sm100()):", "name == 'llama' and bool(is_sm100())",
         "if name == 'llama' and bool(is_sm100() or is_sm120()):", names=_SM),
]  # fmt: skip


def _truth(statement: str, deciding: str, arch: int) -> bool:
    """The value of the whole condition (or of the argument) with everything else taken to hold."""
    text = statement.removeprefix("if ").removeprefix("x = ").removesuffix(":")
    world = _world(arch)
    world["f"] = lambda value, _: value
    return bool(eval(text, world))


@pytest.mark.parametrize("case", _CASES, ids=lambda case: case.statement)
def test_the_expression_lets_exactly_the_wanted_archs_through_in_addition(case: Case) -> None:
    tail = " pass\n" if case.statement.endswith(":") else "\n"
    before = _PREDICATES + case.statement + tail
    text, admits = opened(
        before, case.deciding, Form.PYTHON_EXPRESSION, case.wanted, names=case.names, sense=case.sense
    )
    statement = text.splitlines()[-1].removesuffix(" pass")
    assert statement == case.after
    assert set(case.wanted) <= admits
    negated = case.statement.startswith("if not") and not case.deciding.startswith("not")
    opens_when = (case.sense is Sense.ALLOW) != negated
    for arch in KNOWN_ARCHS:
        expected = opens_when if arch in admits else _truth(case.statement, case.deciding, arch)
        assert _truth(statement, case.deciding, arch) == expected, arch


def test_a_multi_line_expression_keeps_its_lines() -> None:
    before = "import torch\nok = (\n    on\n    and (major == 9)  # Hopper\n    and size > 0\n)\n"
    deciding = before[before.index("on\n") : before.index("\n)")]
    text, _ = opened(before, deciding, Form.PYTHON_EXPRESSION, (120, 121))
    assert text == before.replace("major == 9", "major in (9, 12)")


def test_torch_is_asked_where_the_file_has_nothing_better() -> None:
    text, admits = opened("import torch\nif is_hopper():\n    pass\n", "is_hopper()", Form.PYTHON_EXPRESSION, (120,))
    assert "if is_hopper() or (torch.version.hip is None and torch.cuda.is_available() and " in text
    assert "torch.cuda.get_device_capability() == (12, 0)):" in text
    assert admits == {120}


@pytest.mark.parametrize(
    ("text", "deciding", "reason"),
    [
        ("if name == 'llama':", "name == 'llama'", "names an architecture"),
        ("if is_hopper():", "is_hopper()", "cannot be sure of torch"),
        ("if major ==:", "major ==", "no Python expression"),
    ],
)
def test_what_cannot_be_opened_says_why(text: str, deciding: str, reason: str) -> None:
    with pytest.raises(Unopenable, match=reason):
        opened(text + "\n    pass\n", deciding, Form.PYTHON_EXPRESSION)
