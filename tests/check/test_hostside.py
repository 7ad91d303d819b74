"""Macros of the device's compilation in functions of the host."""

from __future__ import annotations

import pytest
from tests.check.conftest import Ask

HOST = "int main() {\n#if __CUDA_ARCH__ == 1000\n  run();\n#else\n  std::cerr << 1;\n#endif\n  return 0;\n}\n"


@pytest.mark.parametrize(
    ("source", "opened"),
    [
        (HOST, 0),
        (HOST.replace("int main", "__device__ int f"), 1),
        (HOST.replace("int main", "CUTLASS_DEVICE int f"), 1),
        (HOST.replace("std::cerr << 1", "slow()"), 1),  # whose function it is cannot be told
    ],
    ids=["not opened", "device", "a macro for device", "not told"],
)
def test_nothing(ask: Ask, source: str, opened: int) -> None:
    assert ask("hostside", source, opened=opened, name="k.cu") == ()


def test_a_host_function(ask: Ask) -> None:
    (finding,) = ask("hostside", HOST, opened=1, name="k.cu")
    assert finding.what.startswith("main tests __CUDA_ARCH__ in the host's code")
    assert finding.line == 2 and finding.severity == "warning"
