"""Preprocessor conditions, judged by the real preprocessor in the host pass and in every device pass."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass

import pytest
from tests.patch.edits.opened import opened

from ungate.model import KNOWN_ARCHS, Form, Sense
from ungate.patch.edits import Unopenable

_WANTED = frozenset({120, 121})


@dataclass(frozen=True)
class Case:
    """``directive`` opens the guarded text; ``deciding`` is the span; ``defines`` are given to the preprocessor."""

    directive: str
    deciding: str
    form: Form = Form.PREPROCESSOR
    sense: Sense = Sense.ALLOW
    names: tuple[str, ...] = ()
    defines: tuple[str, ...] = ()


_STORY = "(defined(__CUDA_ARCH__) && (__CUDA_ARCH__ >= 900) && (__CUDA_ARCH__ < 1200))"
_CASES = [
    Case(f"#if {_STORY}", _STORY),
    Case("#if __CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1200", "__CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1200"),
    Case(
        "#  if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900 // H100", "defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900"
    ),
    Case("#if __CUDA_ARCH__ == 900 || __CUDA_ARCH__ == 1000", "__CUDA_ARCH__ == 900 || __CUDA_ARCH__ == 1000"),
    Case("#if !(__CUDA_ARCH__ >= 1200)", "!(__CUDA_ARCH__ >= 1200)"),
    Case(
        "#if (__CUDA_ARCH__ >= 900) && \\\n    (__CUDA_ARCH__ < 1200)",
        "(__CUDA_ARCH__ >= 900) && \\\n    (__CUDA_ARCH__ < 1200)",
    ),
    Case(
        "#if defined(ENABLE) && __CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1200",
        "defined(ENABLE) && __CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1200",
        defines=("ENABLE",),
    ),
    Case(
        "#if __CUDA_ARCH__ >= 900 && defined(ENABLE) && __CUDA_ARCH__ < 1200",
        "__CUDA_ARCH__ >= 900 && defined(ENABLE) && __CUDA_ARCH__ < 1200",
        defines=("ENABLE",),
    ),
    Case("#if defined __CUDA_ARCH_FEAT_SM90_ALL", "defined __CUDA_ARCH_FEAT_SM90_ALL"),
    Case("#if defined(HAS_TMA)", "defined(HAS_TMA)", names=("HAS_TMA",)),
    Case("#ifdef HAS_TMA", "HAS_TMA", Form.MACRO_TEST),
    Case("#  ifdef   HAS_TMA  // yes", "HAS_TMA", Form.MACRO_TEST),
    Case(
        "#if __CUDA_ARCH__ < 900 || __CUDA_ARCH__ >= 1200",
        "__CUDA_ARCH__ < 900 || __CUDA_ARCH__ >= 1200",
        sense=Sense.REFUSE,
    ),
    Case("#if __CUDA_ARCH__ >= 1200", "__CUDA_ARCH__ >= 1200", sense=Sense.REFUSE),
    Case("#if !defined(HAS_TMA)", "!defined(HAS_TMA)", sense=Sense.REFUSE, names=("HAS_TMA",)),
    Case("#ifndef HAS_TMA", "HAS_TMA", Form.MACRO_TEST, Sense.REFUSE),
    Case("#if 0\n#elif __CUDA_ARCH__ == 900", "__CUDA_ARCH__ == 900"),
    Case(
        "#if defined(__CUDA_ARCH__) and (__CUDA_ARCH__ >= 900 and not (__CUDA_ARCH__ >= 1200))",
        "defined(__CUDA_ARCH__) and (__CUDA_ARCH__ >= 900 and not (__CUDA_ARCH__ >= 1200))",
    ),
]


def _passes(directives: list[tuple[str, tuple[str, ...]]], arch: int | None) -> list[bool]:
    """Which guarded texts the preprocessor keeps; ``arch`` None is the host pass."""
    source = "".join(f"{text}\nKEPT{i}\n#endif\n" for i, (text, _) in enumerate(directives))
    defines = [f"-D{d}" for _, some in directives for d in some]
    device = [] if arch is None else [f"-D__CUDA_ARCH__={arch * 10}"]
    done = subprocess.run(
        ["gcc", "-E", "-x", "c++", "-P", *defines, *device, "-"],
        input=source, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    kept = set(done.stdout.split())
    return [f"KEPT{i}" in kept for i in range(len(directives))]


def test_the_preprocessor_lets_exactly_the_wanted_archs_through_in_addition() -> None:
    edited = [
        opened(case.directive, case.deciding, case.form, _WANTED, names=case.names, sense=case.sense)[0]
        for case in _CASES
    ]
    old = [(case.directive, case.defines) for case in _CASES]
    new = [(text, case.defines) for text, case in zip(edited, _CASES, strict=True)]
    for arch in (None, *KNOWN_ARCHS):
        before, after = _passes(old, arch), _passes(new, arch)
        for case, text, was, now in zip(_CASES, edited, before, after, strict=True):
            allowed = case.sense is Sense.ALLOW
            expected = allowed if arch in _WANTED else was
            assert now == expected, f"{arch}: {case.directive!r} became {text!r}"


def test_a_build_option_keeps_its_say() -> None:
    text = "#if defined(ENABLE) && __CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1200"
    edited, _ = opened(text, text[4:], Form.PREPROCESSOR, _WANTED)
    assert _passes([(edited, ())], 120) == [False]
    assert _passes([(edited, ("ENABLE",))], 120) == [True]


def test_the_text_of_the_story() -> None:
    edited, admits = opened(f"#if {_STORY}", _STORY, Form.PREPROCESSOR, _WANTED)
    assert edited == f"#if {_STORY} || (defined(__CUDA_ARCH__) && (__CUDA_ARCH__ == 1200 || __CUDA_ARCH__ == 1210))"
    assert admits == _WANTED


@pytest.mark.parametrize(
    ("before", "deciding", "after"),
    [
        ("if (sm == 120) {", "sm == 120", "if (sm == 120 || sm == 121) {"),
        ("if (sm >= 90 && sm < 110) {", "sm >= 90 && sm < 110", "if ((sm >= 90 && sm < 110) || sm == 121) {"),
        ("if (sm == 89 || sm == 120) {", "sm == 89 || sm == 120", "if (sm == 89 || sm == 120 || sm == 121) {"),
        ("if (fp8 && sm == 90) {", "fp8 && sm == 90", "if (fp8 && (sm == 90 || sm == 121)) {"),
        ("if (fp8 && sm == 90) {", "sm == 90", "if (fp8 && (sm == 90 || sm == 121)) {"),
        ("return getSMVersion() >= 90 && getSMVersion() <= 103;", "getSMVersion() >= 90 && getSMVersion() <= 103",
         "return (getSMVersion() >= 90 && getSMVersion() <= 103) || getSMVersion() == 121;"),
        ("if (90 == sm) {", "90 == sm", "if (90 == sm || sm == 121) {"),
    ],
)  # fmt: skip
def test_a_host_expression_compares_its_own_variable(before: str, deciding: str, after: str) -> None:
    text, admits = opened(before, deciding, Form.HOST_EXPRESSION, {121})
    assert text == after
    assert admits == {121}


def test_a_host_expression_that_refuses_lets_the_target_by() -> None:
    before = "TORCH_CHECK(!(major != 9 && major != 10));"
    text, admits = opened(before, "major != 9 && major != 10", Form.HOST_EXPRESSION, {120}, sense=Sense.REFUSE)
    assert text == "TORCH_CHECK(!(major != 9 && major != 10 && !(major == 12)));"
    assert admits == {120, 121}


@pytest.mark.parametrize(
    ("form", "text", "reason"),
    [
        (Form.HOST_EXPRESSION, "isHopper(device)", "compares no variable"),
        (Form.MACRO_TEST, "X", "no #ifdef"),
        (Form.PREPROCESSOR, "__CUDA_ARCH__ >= `900", "does not know"),
        (Form.FIXED, "X", "no edit is known"),
    ],
)
def test_what_cannot_be_opened_says_why(form: Form, text: str, reason: str) -> None:
    with pytest.raises(Unopenable, match=reason):
        opened(text, text, form)
