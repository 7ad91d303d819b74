"""The shapes of public reports in which two places say different things of an architecture: each fires on small
packages, and a near miss does not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.trace.conftest import Lint, Make
from tests.trace.test_lint import ARGS, PLATFORM

from ungate.model import KNOWN_ARCHS, Finding, Target
from ungate.trace import Trace
from ungate.trace.lint import lint

# vllm#41062: an answer was opened in one file, and the only place that asks for it holds the target back.
ANSWER = {
    "engine/platform.py": """
    import torch

    def family(number):
        return torch.cuda.get_device_capability()[0] == number

    def supports_deep_gemm():
        return torch.cuda.get_device_capability()[0] in (9, 10, 12)
    """,
    "engine/experts.py": """
    import torch
    from engine.platform import supports_deep_gemm

    class Experts:
        def supports_current_device(self):
            return supports_deep_gemm() and torch.cuda.get_device_capability()[0] == 10
    """,
}


def test_an_answer_that_every_use_takes_back(found: Callable[..., tuple[Finding, ...]]) -> None:
    (one,) = found(ANSWER)
    assert (one.rule, one.severity, one.file, one.line) == ("admitted-in-vain", "warning", "engine/experts.py", 7)
    assert "its only use holds it back" in one.what
    assert found(ANSWER, 100) == ()
    other = """
    from engine.platform import supports_deep_gemm

    def warm_up():
        if supports_deep_gemm():
            print("warm")
    """
    assert found({**ANSWER, "engine/warmup.py": other}) == ()  # one use among several may ask for less
    opened = ANSWER["engine/experts.py"].replace("== 10", "in (10, 12)")
    assert found({**ANSWER, "engine/experts.py": opened}) == ()


# TensorRT-LLM#13169: clusters for everything from Hopper on, and a place that leaves the target out.
LAUNCH = """
void launch(Config& config, int sm) {
  cudaLaunchAttribute attribute[2];
  attribute[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute[1].id = cudaLaunchAttributeClusterDimension;
  config.attrs = attribute;
  config.numAttrs = sm >= 90 ? 2 : 1;
}
"""
BOUNDED = """
void launch_norm(Config& config, int sm) {
  if (sm >= 90 && sm < 120) {
    attribute[0].id = cudaLaunchAttributeClusterDimension;
    config.numAttrs = 1;
  }
}
"""
DEVICE = """
__global__ void norm() {
#if (defined(__CUDA_ARCH__) && (__CUDA_ARCH__ >= 900) && (__CUDA_ARCH__ < 1200))
  cudaGridDependencySynchronize();
#endif
}
"""


def test_an_attribute_that_another_place_leaves_out(found: Callable[..., tuple[Finding, ...]]) -> None:
    (one,) = found({"lib/fused.cu": LAUNCH, "lib/norm.cu": BOUNDED})
    assert (one.rule, one.severity, one.file, one.line) == ("launch-attribute-differs", "warning", "lib/norm.cu", 3)
    assert "a launch in clusters for sm_120 (lib/fused.cu:7)" in one.what
    assert found({"lib/fused.cu": LAUNCH, "lib/norm.cu": BOUNDED}, 90) == ()
    both = LAUNCH.replace("2 : 1", "2 : 0")
    assert [each.file for each in found({"lib/fused.cu": both, "lib/norm.cu": DEVICE})] == ["lib/norm.cu"]


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(BOUNDED.replace("sm >= 90 && sm < 120", "sm >= 90"), id="both set it"),
        pytest.param(BOUNDED.replace("sm >= 90 && sm < 120", "sm == 90"), id="Hopper alone says nothing of later ones"),
        pytest.param(
            BOUNDED.replace("cudaLaunchAttributeClusterDimension", "cudaLaunchAttributeCooperative"), id="another one"
        ),
        pytest.param(DEVICE, id="the attribute is counted for all"),
        pytest.param(
            BOUNDED.replace("if (", "if (fast) {\n    go();\n  } else if (").replace(
                "cudaLaunchAttributeClusterDimension", "0"
            ),
            id="another branch",
        ),
    ],
)
def test_places_that_do_not_contradict_the_launch(rules: Lint, other: str) -> None:
    assert rules({"lib/fused.cu": LAUNCH, "lib/norm.cu": other}) == []


def test_device_code_of_another_package_has_its_own_reasons(rules: Lint) -> None:
    both = LAUNCH.replace("2 : 1", "2 : 0")
    assert rules({"lib/fused.cu": both, "engine/norm.cu": DEVICE}) == []
    assert rules({"lib/fused.cu": both, "engine/norm.cu": BOUNDED}) == ["launch-attribute-differs"]


def test_another_body_in_device_code_is_no_lack(rules: Lint) -> None:
    both = LAUNCH.replace("2 : 1", "2 : 0")
    other = DEVICE.replace("#endif", '#else\n  asm volatile("griddepcontrol.wait;");\n#endif')
    assert rules({"lib/fused.cu": both, "lib/norm.cu": other}) == []


# cutlass#3096: one list of a name was opened; cutlass#3082: a check that does not ask the list beside it.
def wrappers(*lists: str) -> str:
    return "\n".join(f"class Op{index}:\n    admissible_archs = {each}\n" for index, each in enumerate(lists))


def test_one_list_of_many_was_opened(found: Callable[..., tuple[Finding, ...]]) -> None:
    usual, opened = '["sm_100a", "sm_103a"]', '["sm_100a", "sm_103a", "sm_120a"]'
    (one,) = found({"dsl/mma.py": wrappers(usual, usual, usual, usual, opened)})
    assert (one.rule, one.severity, one.line) == ("list-differs", "note", 14)
    assert "4 lists of that name beside it do not" in one.what
    assert found({"dsl/mma.py": wrappers(*[opened] * 5)}) == ()
    assert found({"dsl/mma.py": wrappers(usual, usual, opened, opened)}) == ()  # two kinds, no odd one out
    built = "\n".join(
        f"def gen{index}(c):\n    return c.flags(supported_major_versions={each})\n"
        for index, each in enumerate(["[10]"] * 4 + ["[10, 12]"])
    )
    assert found({"dsl/jit.py": built}) == ()  # each is one module's own


UNASKED = """
import torch

class Block:
    admissible_archs = ["sm_120a", "sm_121a"]

    def __init__(self):
        if not torch.cuda.get_device_capability() == (12, 0):
            raise ValueError(f"expects one of {self.admissible_archs}")
"""


def test_a_check_that_does_not_ask_the_list_beside_it(found: Callable[..., tuple[Finding, ...]]) -> None:
    (one,) = found({"dsl/block.py": UNASKED}, 121)
    assert (one.rule, one.severity, one.line) == ("check-ignores-list", "danger", 8)
    assert found({"dsl/block.py": UNASKED}, 120) == ()
    assert found({"dsl/block.py": UNASKED.replace("== (12, 0)", "in ((12, 0), (12, 1))")}, 121) == ()


# pytorch#188597: a name that always has a suffix, and a part that is let in before it is built.
NAMES = """
import torch

def device_arch():
    major, minor = torch.cuda.get_device_capability()
    return f"{major}{minor}a"

def tile():
    if device_arch() == "90":
        return 64
    return 128
"""


def test_a_name_that_never_comes_alone(rules: Lint) -> None:
    assert rules({"lib/arch.py": NAMES}) == ["exact-name"]
    assert rules({"lib/arch.py": NAMES.replace('"90"', '"90a"')}) == []
    assert rules({"lib/arch.py": NAMES.replace("{minor}a", "{minor}")}) == []


CMAKE = """
if(${CMAKE_CUDA_COMPILER_VERSION} VERSION_GREATER_EQUAL 13.0)
  cuda_archs_loose_intersection(MOE_ARCHS "10.0f;11.0f" "${CUDA_ARCHS}")
else()
  cuda_archs_loose_intersection(MOE_ARCHS "10.0a;10.3a" "${CUDA_ARCHS}")
endif()
if(${CMAKE_CUDA_COMPILER_VERSION} VERSION_GREATER_EQUAL 12.8 AND MOE_ARCHS)
  list(APPEND FLAGS "-DENABLE_MOE_SM100=1")
endif()
"""
ENTRY = """
void moe() {
  int32_t sm_version = get_sm_version();
#if defined ENABLE_MOE_SM100 && ENABLE_MOE_SM100
  if (sm_version >= 100) {
    moe_sm100();
    return;
  }
#endif
}
"""


def test_what_is_let_in_before_it_is_built(found: Callable[..., tuple[Finding, ...]]) -> None:
    (one,) = found({"src/CMakeLists.txt": CMAKE, "src/entry.cu": ENTRY})
    assert (one.rule, one.severity, one.file, one.line) == ("admitted-not-built", "terminal", "src/entry.cu", 5)
    assert "ENABLE_MOE_SM100" in one.what
    assert found({"src/CMakeLists.txt": CMAKE, "src/entry.cu": ENTRY}, 103) == ()  # in one of the two lists
    bounded = ENTRY.replace("sm_version >= 100", "sm_version >= 100 && sm_version < 110")
    assert found({"src/CMakeLists.txt": CMAKE, "src/entry.cu": bounded}) == ()
    built = CMAKE.replace("10.0f;11.0f", "10.0f;11.0f;12.0f")
    assert found({"src/CMakeLists.txt": built, "src/entry.cu": ENTRY}) == ()
    assert found({"src/CMakeLists.txt": CMAKE, "src/entry.cu": ENTRY.replace("ENABLE_MOE_SM100", "ENABLE_OTHER")}) == ()


def test_another_makers_name_only_where_no_target_is_named(make: Make) -> None:
    text = "import torch\n\ndef big():\n    return torch.cuda.get_device_properties(0).gcnArchName == 'gfx1250'\n"
    trace = Trace(make({"lib/amd.py": text}), None, Target(121))
    (one,) = lint(trace, KNOWN_ARCHS)[0]
    assert (one.rule, one.line) == ("exact-name", 4)
    assert lint(trace, (120,))[0] == ()
    split = text.replace(".gcnArchName", ".gcnArchName.split(':')[0]")
    assert lint(Trace(make({"lib/amd.py": split}), None, Target(121)), KNOWN_ARCHS)[0] == ()


def test_what_is_refused_while_running_comes_first(found: Callable[..., tuple[Finding, ...]]) -> None:
    several = {**ANSWER, "src/CMakeLists.txt": CMAKE, "src/entry.cu": ENTRY}
    several |= {
        f"engine/{name}": text for name, text in (("args.py", ARGS["engine/server_args.py"]), ("p.py", PLATFORM))
    }
    several["engine/args.py"] = several["engine/args.py"].replace("engine.platform", "engine.p")
    assert [finding.severity for finding in found(several)] == ["danger", "terminal", "warning"]


def test_a_place_that_asks_for_no_floor_is_no_lack(rules: Lint) -> None:
    both = LAUNCH.replace("2 : 1", "2 : 0")
    other = DEVICE.replace("(__CUDA_ARCH__ >= 900) && (__CUDA_ARCH__ < 1200)", "(__CUDA_ARCH__ != 1200)")
    assert rules({"lib/fused.cu": both, "lib/norm.cu": other}) == []
