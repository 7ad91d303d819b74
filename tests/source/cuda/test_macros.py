"""Macros followed across files."""

from __future__ import annotations

from ungate.model import KNOWN_ARCHS
from ungate.source.condition import passing
from ungate.source.cuda.conditions import Conditions
from ungate.source.cuda.directives import read
from ungate.source.cuda.macros import Macros, gather, settle


def _conditions(*files: str) -> Conditions:
    definitions, others = settle(gather(read(text)) for text in files)
    return Conditions(Macros(definitions, others))


def _passes(conditions: Conditions, text: str) -> list[int] | None:
    judged = conditions.judge(text)
    assert judged.gate, text
    found = passing(judged.tree)
    return list(found) if found.decided else None


def test_two_files_and_two_removes() -> None:
    conditions = _conditions(
        "#if __CUDA_ARCH__ >= 1000\n#define A_ENABLED\n#endif\n",
        "#if defined(A_ENABLED) && defined(USE_B)\n#define B_ENABLED 1\n#else\n#define B_ENABLED 0\n#endif\n",
    )
    assert _passes(conditions, "B_ENABLED") == [100, 103, 107, 110, 120, 121]
    assert _passes(conditions, "!defined(A_ENABLED)") == [75, 80, 86, 87, 88, 89, 90]


def test_a_default_does_not_hide_the_real_definition() -> None:
    conditions = _conditions(
        "#if __CUDA_ARCH__ == 900\n#define FAST 1\n#endif\n#ifndef FAST\n#define FAST 0\n#endif\n",
    )
    assert _passes(conditions, "FAST == 1") == [90]
    assert _passes(conditions, "!FAST") == [arch for arch in KNOWN_ARCHS if arch != 90]


def test_what_is_only_under_free_conditions_is_optional() -> None:
    conditions = _conditions(
        "#if __CUDA_ARCH__ >= 900\n#define FAST\n#endif\n#if defined(__CLION_IDE__)\n#define FAST\n#endif\n",
    )
    assert _passes(conditions, "defined(FAST)") == [90, 100, 103, 107, 110, 120, 121]


def test_undef() -> None:
    conditions = _conditions(
        "#if __CUDA_ARCH__ >= 800\n#define FAST\n#endif\n#if __CUDA_ARCH__ >= 1200\n#undef FAST\n#endif\n"
    )
    assert _passes(conditions, "defined(FAST)") == [80, 86, 87, 88, 89, 90, 100, 103, 107, 110]


def test_an_include_guard_is_no_condition() -> None:
    conditions = _conditions("#ifndef A_H\n#define A_H\n#define PLAIN (__CUDA_ARCH__ / 10)\n#endif\n")
    assert _passes(conditions, "PLAIN >= 120") == [120, 121]


def test_macros_that_define_each_other_end() -> None:
    conditions = _conditions(
        "#if defined(B) || __CUDA_ARCH__ >= 900\n#define A\n#endif\n#if defined(A)\n#define B\n#endif\n"
    )
    assert _passes(conditions, "defined(B)") == [90, 100, 103, 107, 110, 120, 121]


def test_a_build_s_own_macro_is_read_by_its_scale() -> None:
    conditions = _conditions()
    assert _passes(conditions, "defined(SGL_CUDA_ARCH) && SGL_CUDA_ARCH >= 1200") == [120, 121]
    assert _passes(conditions, "KERNEL_ARCH == 103") == [103]


def test_a_switch_of_the_build_is_not_decided() -> None:
    conditions = _conditions()
    assert _passes(conditions, "defined(FLASHINFER_MAMBA_ENABLE_SM90)") is None
    assert _passes(conditions, "defined(ENABLE_FOR_SM90) && __CUDA_ARCH__ >= 900") == [90, 100, 103, 107, 110, 120, 121]


def test_no_gates() -> None:
    conditions = _conditions("#if CUDA_VERSION >= 12080\n#define MMA_SM120_SUPPORTED\n#endif\n")
    for text in ("defined(MMA_SM120_SUPPORTED)", "defined(__CUDA_ARCH__)", "!defined(__CUDA_ARCH__)", "NDEBUG", "0"):
        assert not conditions.judge(text).gate, text
