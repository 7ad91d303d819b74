"""The shapes of public reports on gates that contradict each other: each fires on two small packages, and a near miss
does not. The gates are found by the scanner itself."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

import pytest
from tests.trace.conftest import Lint, Make

from ungate.model import Finding, Hop, Target
from ungate.scan import scan
from ungate.trace import Trace
from ungate.trace.ahead import Binaries
from ungate.trace.jit import Step
from ungate.trace.lint import lint

PLATFORM = """
import torch

def is_sm100():
    return torch.cuda.get_device_capability()[0] == 10

def is_new():
    return torch.cuda.get_device_capability()[0] in (10, 11, 12)
"""


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
