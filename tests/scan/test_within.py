"""A directive tells which architectures get as far as it."""

from __future__ import annotations

from pathlib import Path

from ungate.host.packages import below
from ungate.scan import scan

_HEADER = """\
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#if __CUDA_ARCH__ < 1000
int a;
#elif __CUDA_ARCH__ < 1200 && defined(FAST)
int b;
#elif __CUDA_ARCH__ >= 1200
int c;
#endif
#else
#if __CUDA_ARCH__ >= 800
int d;
#endif
#endif
#if defined(FAST) || __CUDA_ARCH__ >= 900
#if __CUDA_ARCH__ >= 1000
int e;
#endif
#endif
"""


def test_nested_directives(tmp_path: Path) -> None:
    top = tmp_path / "p"
    top.mkdir()
    (top / "a.cuh").write_text(_HEADER)
    gates = {gate.line: gate for gate in scan(below(top), use_cache=False, jobs=1).gates}
    new = "the tests before it leave sm_100 sm_103 sm_107 sm_110 sm_120 sm_121"
    assert gates[1].note == "" and gates[14].note == ""
    assert gates[2].note == "the tests before it leave sm_90 sm_100 sm_103 sm_107 sm_110 sm_120 sm_121"
    # whether FAST is defined is not known: what is below 1200 may come as far as the next branch
    assert gates[4].note == gates[6].note == new
    assert gates[10].note == "the tests before it leave sm_75 sm_80 sm_86 sm_87 sm_88 sm_89"
    assert gates[15].note == ""
    assert [*gates[6].passes] == [120, 121], "the condition's own set stays"
