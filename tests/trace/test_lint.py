"""The shapes of public reports on gates that contradict each other: each fires on two small packages, and a near miss
does not. The gates are found by the scanner itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module

import pytest
from tests.trace.conftest import Make

from ungate.model import KNOWN_ARCHS, Finding, Hop, Target
from ungate.scan import scan
from ungate.trace import Trace
from ungate.trace.ahead import Binaries
from ungate.trace.jit import Step
from ungate.trace.lint import lint

Lint = Callable[..., list[str]]

PLATFORM = """
import torch

def is_sm100():
    return torch.cuda.get_device_capability()[0] == 10

def is_new():
    return torch.cuda.get_device_capability()[0] in (10, 11, 12)
"""


@pytest.fixture
def found(make: Make) -> Callable[..., tuple[Finding, ...]]:
    def of(files: Mapping[str, str], arch: int = 120) -> tuple[Finding, ...]:
        packages = make(files)
        result = scan(packages, jobs=1, use_cache=False)
        return lint(Trace(packages, result, Target(arch)), (arch,))[0]

    return of


@pytest.fixture
def rules(found: Callable[..., tuple[Finding, ...]]) -> Lint:
    return lambda files, arch=120: [finding.rule for finding in found(files, arch)]


# club-3090#574, vllm#49093: a floor admits what the library refuses in an error, a decorator or a list.
FLOOR = {
    "engine/layer.py": """
    import torch
    import kernels

    def run(x):
        if torch.cuda.get_device_capability() >= (10, 0):
            return kernels.fast(x)
        return x
    """,
    "kernels/platform.py": PLATFORM,
    "kernels/requirement.py": """
    def requirement(table):
        def decorator(func):
            return func
        return decorator

    def supported_compute_capability(listed):
        def decorator(func):
            return func
        return decorator
    """,
}
RAISES = """
from kernels.platform import is_sm100

def fast(x):
    check(x)
    return x + 1

def check(x):
    if not is_sm100():
        raise RuntimeError("fast needs sm_100")
"""


def test_a_floor_above_a_function_that_raises(found: Callable[..., tuple[Finding, ...]]) -> None:
    (one,) = found({**FLOOR, "kernels/__init__.py": RAISES})
    assert (one.rule, one.severity, one.file, one.line) == (
        "engine-admits-library-refuses",
        "danger",
        "kernels/__init__.py",
        9,
    )
    assert "check" in one.what
    assert "engine/layer.py:6" in one.what
    assert found({**FLOOR, "kernels/__init__.py": RAISES}, 100) == ()
    assert found({**FLOOR, "kernels/__init__.py": RAISES}, 90) == ()  # the floor does not let it come there


@pytest.mark.parametrize(
    "library",
    [
        pytest.param(RAISES.replace("is_sm100", "is_new"), id="the library agrees"),
        pytest.param(RAISES.replace("    check(x)\n", "    if x.slow:\n        check(x)\n"), id="not on every call"),
        pytest.param(
            RAISES.replace("    check(x)\n", "    if x.small:\n        return x\n    check(x)\n"),
            id="another way before it",
        ),
        pytest.param(
            RAISES.replace("    check(x)\n", "    try:\n        check(x)\n    except RuntimeError:\n        pass\n"),
            id="the error is caught",
        ),
        pytest.param(
            "def fast(x, arch=100):\n    assert arch in [90, 100]\n    return x\n",
            id="the caller says which number it is",
        ),
    ],
)
def test_what_is_not_sure_to_be_refused(rules: Lint, library: str) -> None:
    assert rules({**FLOOR, "kernels/__init__.py": library}) == []


def test_a_caller_that_keeps_the_target_away(rules: Lint) -> None:
    above = """
    from kernels.platform import is_new, is_sm100
    from engine.layer import run

    def serve(x):
        if is_sm100():
            return run(x)
        return x
    """
    assert rules({**FLOOR, "kernels/__init__.py": RAISES, "engine/server.py": above}) == []
    open_too = above.replace("if is_sm100", "if is_new")
    assert rules({**FLOOR, "kernels/__init__.py": RAISES, "engine/server.py": open_too}) != []


def test_the_fallback_of_another_branch_is_not_let_in_by_it(rules: Lint) -> None:
    fallback = """
    import kernels
    import torch

    def run(x):
        if torch.cuda.get_device_capability()[0] == 9:
            return x
        return kernels.fast(x)
    """
    assert rules({**FLOOR, "kernels/__init__.py": RAISES, "engine/layer.py": fallback}) == []


REQUIRED = """
from kernels.requirement import requirement, supported_compute_capability

@supported_compute_capability([100, 103])
def _trtllm(a): ...

@supported_compute_capability([100, 103, 120])
def _cutlass(a): ...

@requirement({"trtllm": _trtllm, "cutlass": _cutlass})
def fast(a, backend="auto"):
    return a
"""


def test_a_backend_whose_requirement_refuses(rules: Lint) -> None:
    named = FLOOR["engine/layer.py"].replace("kernels.fast(x)", 'kernels.fast(x, backend="trtllm")')
    files = {**FLOOR, "kernels/__init__.py": REQUIRED}
    assert rules({**files, "engine/layer.py": named}) == ["engine-admits-library-refuses"]
    assert rules({**files, "engine/layer.py": named.replace("trtllm", "cutlass")}) == []
    assert rules(files) == []  # without a name it is chosen among those that pass


BUILT = """
from kernels.context import context, load

def gen_fast_module():
    flags = context.flags(supported_major_versions=[9, 10])
    return load("fast", ["fast.cu"], flags)

def fast(x):
    return gen_fast_module().run(x)
"""
CONTEXT = (
    "def load(name, sources, flags): ...\n\nclass Context:\n    def flags(self, supported_major_versions): ...\n\n"
)
CONTEXT += "context = Context()\n"


def test_a_module_that_is_built_for_others_only(rules: Lint) -> None:
    files = {**FLOOR, "kernels/__init__.py": BUILT, "kernels/context.py": CONTEXT, "kernels/fast.cu": "void run() {}\n"}
    assert rules(files) == ["engine-admits-library-builds-nothing"]
    assert rules({**files, "kernels/__init__.py": BUILT.replace("[9, 10]", "[9, 10, 12]")}) == []
    either = BUILT.replace("    flags = ", "    flags = None\n    if slow:\n        flags = ")
    assert rules({**files, "kernels/__init__.py": either}) == []  # a list in one branch is not every build


# sglang#18758, sglang#37105: a value that one place gives and another place of the same engine refuses.
ARGS = {
    "engine/platform.py": PLATFORM,
    "engine/server_args.py": """
    from engine.platform import is_new, is_sm100

    class ServerArgs:
        attention_backend: str = None

        def add(parser):
            parser.add_argument("--attention-backend", default=None)

        def defaults(self):
            if is_new():
                self.attention_backend = "trtllm_mla"

        def check(self):
            if self.attention_backend == "trtllm_mla" or self.decode_backend == "trtllm_mla":
                if not is_sm100():
                    raise ValueError("trtllm_mla needs sm_100")
    """,
}


def test_a_value_that_is_given_and_refused(found: Callable[..., tuple[Finding, ...]]) -> None:
    (one,) = found(ARGS)
    assert (one.rule, one.line) == ("default-admits-code-refuses", 17)
    assert "--attention-backend to trtllm_mla for sm_120" in one.what
    assert found(ARGS, 100) == ()
    agrees = ARGS["engine/server_args.py"].replace("if not is_sm100", "if not is_new")
    assert found({**ARGS, "engine/server_args.py": agrees}) == ()
    another = ARGS["engine/server_args.py"].replace(' = "trtllm_mla"', ' = "triton"')
    assert found({**ARGS, "engine/server_args.py": another}) == ()
    model = ARGS["engine/server_args.py"].replace("if not is_sm100()", "if self.draft and not is_sm100()")
    assert found({**ARGS, "engine/server_args.py": model}) == ()  # something else decides with it


# sglang#24633: the engine's check lets a backend through whose runner, in C++, refuses it.
LED = {
    **ARGS,
    "engine/server_args.py": ARGS["engine/server_args.py"]
    .replace("if not is_sm100", "if not is_new")
    .replace('self.attention_backend = "trtllm_mla"', "pass"),
    "engine/registry.py": """
    from engine.attention import MLABackend

    BACKENDS = {}

    def register_attention_backend(name):
        def decorator(func):
            BACKENDS[name] = func
            return func
        return decorator

    @register_attention_backend("trtllm_mla")
    def create_trtllm_mla(runner):
        return MLABackend(runner)

    def make(server_args):
        return BACKENDS[server_args.attention_backend](server_args)
    """,
    "engine/attention.py": """
    import kernels

    class MLABackend:
        def __init__(self, runner):
            self.runner = runner
            self.out = kernels.mla_prefill(runner)
    """,
    "kernels/__init__.py": """
    from kernels.context import load

    def gen_mla_module():
        return load("mla", ["mla.cu"], [])

    def mla_prefill(q):
        return gen_mla_module().mla_prefill(q)
    """,
    "kernels/context.py": CONTEXT,
    "kernels/mla.cu": """
    struct Runner {
      explicit Runner(int device) : mSM(getSMVersion()) {
        LIB_CHECK(mSM == 100 || mSM == 103, "Unsupported architecture");
      }
    };
    void mla_prefill(int q) { Runner runner(q); }
    TVM_FFI_DLL_EXPORT_TYPED_FUNC(mla_prefill, mla_prefill);
    """,
}


def test_a_backend_whose_runner_refuses(found: Callable[..., tuple[Finding, ...]]) -> None:
    (one,) = found(LED)
    assert (one.rule, one.file, one.line) == ("value-leads-to-refusal", "kernels/mla.cu", 4)
    assert "lets --attention-backend trtllm_mla through for sm_120" in one.what
    assert found(LED, 100) == ()
    choice = LED["kernels/mla.cu"].replace(
        'LIB_CHECK(mSM == 100 || mSM == 103, "Unsupported architecture");', "if (mSM == 100) { tile = 4; }"
    )
    assert found({**LED, "kernels/mla.cu": choice}) == ()
    closed = LED["engine/server_args.py"].replace("is_new()", "is_sm100()")
    assert found({**LED, "engine/server_args.py": closed}) == ()


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


def test_the_kind_of_device_is_no_backend_to_follow(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """``device: str`` stands in hundreds of classes, and everything is behind it."""
    asked: list[str] = []

    def ask(trace: Trace, value: str, flag: str) -> tuple[()]:
        asked.append(value)
        return ()

    monkeypatch.setattr(import_module("ungate.trace.lint.leading"), "of_value", ask)
    checks = ARGS["engine/server_args.py"].replace("is_sm100()", "is_new()")
    packages = make({**ARGS, "engine/server_args.py": checks, "engine/runner.py": checks.replace("trtllm_mla", "cuda")})
    lint(Trace(packages, scan(packages, jobs=1, use_cache=False), Target(120)), (120,))
    assert set(asked) == {"trtllm_mla"}


def test_a_place_that_asks_for_no_floor_is_no_lack(rules: Lint) -> None:
    both = LAUNCH.replace("2 : 1", "2 : 0")
    other = DEVICE.replace("(__CUDA_ARCH__ >= 900) && (__CUDA_ARCH__ < 1200)", "(__CUDA_ARCH__ != 1200)")
    assert rules({"lib/fused.cu": both, "lib/norm.cu": other}) == []


# club-3090#574: the operator under the floor is in a binary without code for the target.
def test_a_floor_above_a_binary_of_one_family(
    found: Callable[..., tuple[Finding, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def hops(self: Binaries, step: Step, target: Target, meant: str = "") -> tuple[Hop, ...]:
        lacks = "" if target.number == 100 else f"the binary holds sm_100f and nothing that {target} can run"
        return (Hop("kernel", "kernels/ops.so", 0, step.use.text, True, blocker=lacks),)

    monkeypatch.setattr(Binaries, "hops", hops)
    files = {"engine/layer.py": FLOOR["engine/layer.py"].replace("kernels.fast(x)", "torch.ops.kernels.fast(x)")}
    (one,) = found(files)
    assert (one.rule, one.severity, one.file) == ("engine-admits-binary-lacks", "terminal", "kernels/ops.so")
    assert found(files, 100) == ()
    assert found(files, 90) == ()
