"""Device functions of which a constant is left."""

from __future__ import annotations

import pytest
from tests.check.conftest import Ask

GATED = "#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000 && __CUDA_ARCH__ < 1200\n"
HELPER = "__device__ uint32_t pack(float2 x) {\n" + GATED + "  return convert(x);\n#else\n  return 0;\n#endif\n}\n"

NOTHING = {
    "a real fallback": HELPER.replace("return 0;", "return slow(x);"),
    "a trap": HELPER.replace("return 0;", "__trap(); return 0;"),
    "no condition": "__device__ int zero() {\n  return 0;\n}\n",
    "host code": HELPER.replace("__device__ ", ""),
    "open for the target": HELPER.replace(" && __CUDA_ARCH__ < 1200", ""),
}


@pytest.mark.parametrize("source", NOTHING.values(), ids=NOTHING.keys())
def test_nothing(ask: Ask, source: str) -> None:
    assert ask("constant", source) == ()


@pytest.mark.parametrize("value", ["0", "0.0f", "false", "nullptr", "T(0)", "vec_t{}"])
def test_a_constant_in_the_else(ask: Ask, value: str) -> None:
    (finding,) = ask("constant", HELPER.replace("return 0;", f"return {value};"))
    assert finding.what == f"pack would return the constant {value} on sm_120"
    assert "line 2" in finding.evidence


def test_a_default_that_is_never_filled(ask: Ask) -> None:
    source = "__device__ int f(int x) {\n  int y = 0;\n" + GATED + "  y = g(x);\n#endif\n  return y;\n}\n"
    (finding,) = ask("constant", source)
    assert "constant y" in finding.what
    assert ask("constant", source, opened=1) == ()
