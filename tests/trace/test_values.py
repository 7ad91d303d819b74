"""A flag's value followed through tables, enumerations and predicates, down to a build or to a binary."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.host.test_images import fatbin, library
from tests.trace.conftest import TARGET, Make, gate

from ungate.model import ScanResult, Status
from ungate.trace import Trace, ask

Of = Callable[..., Trace]

ARGS = """
class ServerArgs:
    attn_backend: str = "auto"
    moe_runner_backend: str = "auto"

    def add(self, parser):
        parser.add_argument("--attn-backend", dest="attn_backend")
        parser.add_argument("--moe-runner-backend", dest="moe_runner_backend")
"""
BUILDS = """
def gen_fast():
    return jit_module("fast", ["csrc/fast.cu"])

def gen_moe():
    return jit_module("moe", ["csrc/moe.cu"])
"""
APP = {
    "app/server_args.py": ARGS,
    "app/jit.py": BUILDS,
    "app/registry.py": """
    from app.jit import gen_fast

    BACKENDS = {}

    def register_attn_backend(name):
        def keep(function):
            BACKENDS[name] = function
            return function
        return keep

    @register_attn_backend("fast")
    def make_fast(runner):
        return gen_fast().build_and_load()

    @register_attn_backend("slow")
    def make_slow(runner):
        return None

    class Runner:
        def backend(self):
            name = self.server_args.attn_backend
            return BACKENDS[name](self)
    """,
    "app/moe.py": """
    from enum import Enum
    from app.jit import gen_moe

    class MoeRunnerBackend(Enum):
        FAST = "fast"
        SLOW = "slow"

        def is_fast(self):
            return self == MoeRunnerBackend.FAST

    class GemmBackend(Enum):
        FAST = "fast"

        def is_quick(self):
            return self == GemmBackend.FAST

    class Layer:
        def __init__(self, backend: MoeRunnerBackend):
            self.use_fast = backend.is_fast()

        def apply(self, x):
            if not self.use_fast:
                return x
            return gen_moe().build_and_load().run(x)
    """,
    "app/csrc/fast.cu": "void run() {}\n",
    "app/csrc/moe.cu": "void run() {}\n",
}


def test_a_registered_backend_is_found_from_its_table(trace: Of) -> None:
    (chain,) = ask(trace(APP), "--attn-backend=fast")
    assert [(hop.kind, hop.symbol) for hop in chain.hops if hop.kind in ("flag", "call", "jit-module")] == [
        ("flag", "--attn-backend fast"),
        ("call", "Runner.backend"),
        ("call", "make_fast"),
        ("jit-module", "gen_fast"),
    ]
    assert all(hop.verified for hop in chain.hops if hop.kind != "source")


def test_the_same_value_of_another_flag_is_another_feature(trace: Of) -> None:
    (chain,) = ask(trace(APP), "--moe-runner-backend=fast")
    assert [hop.symbol for hop in chain.hops if hop.kind == "jit-module"] == ["gen_moe"]
    assert [hop.symbol for hop in chain.hops if hop.kind == "call"] == ["MoeRunnerBackend.is_fast", "Layer.apply"]


SHIPPED = {
    "app/server_args.py": ARGS,
    "app/moe.py": """
    import torch

    def run(server_args, x):
        if server_args.moe_runner_backend == "shipped":
            return shipped(x)
        return x

    def shipped(x):
        return torch.ops.kernels.shipped_gemm(x)
    """,
}


@pytest.mark.parametrize(
    ("images", "blocked"),
    [
        pytest.param(((2, 80, 0), (2, 90, 1 << 20)), True, id="nothing for the target"),
        pytest.param(((2, 80, 0), (2, 120, 0)), False, id="an image for the target"),
        pytest.param(((1, 80, 0),), False, id="PTX that the driver compiles"),
    ],
)
def test_a_binary_without_an_image_is_terminal(
    make: Make, images: tuple[tuple[int, int, int], ...], blocked: bool
) -> None:
    packages = make({**SHIPPED, "kernels/__init__.py": ""})
    text = library((b".rodata", b"\0shipped_gemm(Tensor x) -> Tensor\0"), (b".nv_fatbin", fatbin(*images)))
    (packages[-1].root / "kernels" / "ops.so").write_bytes(text)
    (chain,) = ask(Trace(packages, ScanResult(()), TARGET), "--moe-runner-backend=shipped")
    last = chain.hops[-1]
    assert (last.kind, last.file, last.verified) == ("kernel", "kernels/ops.so", True)
    assert bool(last.blocker) is blocked


def test_what_is_not_at_hand_is_unknown(trace: Of) -> None:
    (chain,) = ask(trace(SHIPPED), "--moe-runner-backend=shipped")
    last = chain.hops[-1]
    assert (last.kind, last.verified, last.blocker) == ("kernel", None, "")


def test_downloaded_kernels_are_terminal_only_where_a_gate_holds_the_target_back(trace: Of) -> None:
    files = {"lib/jit.py": 'def gen_it():\n    get_artifact("x")\n    return jit_module("m", ["csrc/m.cu"])\n'}
    for passes, blocked in (({90, 100}, True), ({90, 120}, False)):
        (chain,) = ask(trace(files, gate("lib/jit.py", 2, passes)), "gen_it")
        build = next(hop for hop in chain.hops if hop.kind == "jit-module")
        assert (build.gates[0].status(TARGET) is Status.CLOSED, bool(build.blocker)) == (blocked, blocked)
        assert blocked or "not known" in build.note


DECLARED = {
    "app/server_args.py": ARGS,
    "app/hook.py": """
    def settle(server_args, cfg):
        if cfg.attn_backend is None:
            if is_new():
                declare_resolution(server_args, "settle", attn_backend="fast")
            else:
                log.warning("x", attn_backend="slow")
    """,
}


def test_a_default_that_is_declared_by_a_call_is_a_default(trace: Of) -> None:
    made = trace({**APP, **DECLARED}, gate("app/hook.py", 4, {100}, names=("is_new",)))
    (chain,) = ask(made, "--attn-backend=fast")
    default = next(hop for hop in chain.hops if hop.kind == "default")
    assert (default.file, default.symbol) == ("app/hook.py", "settle")
    assert [(each.line, each.role) for each in default.gates] == [(4, "default")]


def test_a_flag_that_only_a_field_declares_is_a_flag(trace: Of) -> None:
    files = {
        "app/args.py": """
        class ServerArgs:
            use_new_fusion: A[bool, Arg(help="x")] = False
        """,
        "app/run.py": """
        from app.jit import gen_fast

        def run(server_args, x):
            if server_args.use_new_fusion:
                return gen_fast().build_and_load().run(x)
        """,
        "app/jit.py": BUILDS,
    }
    (chain,) = ask(trace(files), "--use-new-fusion")
    assert [hop.symbol for hop in chain.hops if hop.kind == "jit-module"] == ["gen_fast"]
