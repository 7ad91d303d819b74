"""Kernels that overlap their predecessor and no longer wait for it."""

from __future__ import annotations

import pytest
from tests.check.conftest import Ask

HOST = "void launch() { attribute[0].id = cudaLaunchAttributeProgrammaticStreamSerialization; }\n"
GATED = "#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1200\n"
KERNEL = "__global__ void k(int* p) {\n" + GATED + "  cudaGridDependencySynchronize();\n#endif\n  *p = 1;\n}\n"

NOTHING = {
    "the host sets no attribute": KERNEL,
    "the wait is there": HOST + "__global__ void k(int* p) {\n  cudaGridDependencySynchronize();\n  *p = 1;\n}\n",
    "open for the target": HOST + KERNEL.replace(" && __CUDA_ARCH__ < 1200", ""),
    "no wait at all": HOST + "__global__ void k(int* p) {\n" + GATED + "  *p = 2;\n#endif\n  *p = 1;\n}\n",
    "another wait in the else": HOST + KERNEL.replace("#endif", '#else\n  asm("griddepcontrol.wait;");\n#endif'),
}


@pytest.mark.parametrize("source", NOTHING.values(), ids=NOTHING.keys())
def test_nothing(ask: Ask, source: str) -> None:
    assert ask("unsynchronised", source) == ()


def test_a_wait_that_is_compiled_out(ask: Ask) -> None:
    (finding,) = ask("unsynchronised", HOST + KERNEL)
    assert finding.what.startswith("k is launched with programmatic dependent launch")
    assert (finding.line, finding.end_line) == (2, 7)
    assert "line 3" in finding.advice
    assert ask("unsynchronised", HOST + KERNEL, opened=1) == ()
