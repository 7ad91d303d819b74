"""Host functions that would launch nothing."""

from __future__ import annotations

import pytest
from tests.check.conftest import Ask

CLOSED = "int run(int sm) {\n  if (sm >= 90 && sm < 120) {\n    kernel<<<1, 32>>>(p);\n  }\n  return 0;\n}\n"

NOTHING = {
    "a launch outside": CLOSED.replace("  return 0;", "  other<<<1, 32>>>(p);\n  return 0;"),
    "open for the target": CLOSED.replace(" && sm < 120", ""),
    "no launch": "int run(int sm) {\n  if (sm == 90) {\n    call(p);\n  }\n  return 0;\n}\n",
    "an else that launches": CLOSED.replace("  }\n  return", "  } else {\n    other<<<1, 32>>>(p);\n  }\n  return"),
}


@pytest.mark.parametrize("source", NOTHING.values(), ids=NOTHING.keys())
def test_nothing(ask: Ask, source: str) -> None:
    assert ask("launcher", source, name="k.cu") == ()


def test_every_launch_under_a_closed_comparison(ask: Ask) -> None:
    (finding,) = ask("launcher", CLOSED, name="k.cu")
    assert finding.what == "run would launch no kernel on sm_120"
    assert "line 2" in finding.evidence
    assert ask("launcher", CLOSED, name="k.cu", opened=1) == ()


def test_a_launch_without_braces_and_one_under_a_directive(ask: Ask) -> None:
    source = (
        "void run(int sm) {\n  if (sm == 90) cudaLaunchKernelEx(&c, k, p);\n"
        "#if __CUDA_ARCH__ == 900\n  k<<<1, 1>>>(p);\n#endif\n}\n"
    )
    assert len(ask("launcher", source, name="k.cu")) == 1
