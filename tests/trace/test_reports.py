"""The shapes of public reports, as small samples: what the message says, and which place of the code has to answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.trace.conftest import TARGET, gate

from ungate.model import Chain, Reached, Sense, Status
from ungate.trace import Trace, ask

Of = Callable[..., Trace]

# flashinfer#3675, vllm#42393, flashinfer#2579: a name that became true under a gate, over a list that stayed empty.
ELIGIBLE = {
    "lib/context.py": """
    import os
    import torch

    class Context:
        def __init__(self):
            self.archs = set()
            if "LIB_ARCH_LIST" in os.environ:
                self.archs.add(os.environ["LIB_ARCH_LIST"])
            else:
                try:
                    self.archs.add(torch.cuda.get_device_capability())
                except Exception as error:
                    print(error)

    current = Context()
    """,
    "lib/core.py": """
    from lib.context import current

    def again():
        return current

    def check():
        context = current
        if not context.archs:
            context = again()
        eligible = False
        for major, minor in context.archs:
            if major >= 8:
                eligible = True
            elif major == 7:
                if minor >= 5:
                    eligible = True
        if not eligible:
            raise RuntimeError("The library requires GPUs with sm75 or higher")
    """,
}
SHOWN = "RuntimeError: The library requires GPUs with sm75 or higher"
AMPERE = {80, 86, 89, 90, 100, 120}


def test_a_name_that_became_true_under_a_gate_is_that_gate(trace: Of) -> None:
    made = trace(
        ELIGIBLE, gate("lib/core.py", 13, AMPERE), gate("lib/core.py", 15, {75}), gate("lib/core.py", 16, {75})
    )
    (chain,) = ask(made, SHOWN)
    (raised,) = [hop for hop in chain.hops if hop.kind == "raise"]
    assert [(own.line, own.status(TARGET)) for own in raised.gates] == [(13, Status.OPEN)]  # the way that is open
    assert [hop.line for hop in chain.hops if hop.kind == "source"] == [9, 12]  # what fills the list
    assert any("LIB_ARCH_LIST" in test for hop in chain.hops for test in hop.tests)
    assert any("only logged" in hop.note for hop in chain.hops)


def test_where_no_way_is_open_all_of_them_are_shown_closed(trace: Of) -> None:
    made = trace(
        ELIGIBLE, gate("lib/core.py", 13, {80, 90}), gate("lib/core.py", 15, {75}), gate("lib/core.py", 16, {75})
    )
    (chain,) = ask(made, SHOWN)
    (raised,) = [hop for hop in chain.hops if hop.kind == "raise"]
    assert {(own.line, own.status(TARGET)) for own in raised.gates} == {
        (13, Status.CLOSED),
        (15, Status.CLOSED),
        (16, Status.CLOSED),
    }
    assert not any(hop.kind == "source" for hop in chain.hops)  # the architecture decided


# flashinfer#3113, vllm#49093: a table of requirements by backend, kept by a decorator.
TABLE = {
    "lib/utils.py": """
    def requires(table):
        def decorator(func):
            def wrapper(*args, backend, capability):
                if backend not in table or not table[backend].supports(capability):
                    extra = f" with capability {capability}" if capability else ""
                    raise ValueError(f"{func.__name__} does not support backend '{backend}'{extra}")
                return func(*args, backend=backend)
            return wrapper
        return decorator

    def supported(capabilities): ...
    """,
    "lib/gemm.py": """
    from lib.utils import requires, supported

    @supported([100, 103])
    def _fast_requirement(a, b): ...

    @supported([100, 120])
    def _plain_requirement(a, b): ...

    @requires({"fast": _fast_requirement, "plain": _plain_requirement})
    def mm_small(a, b, backend): ...
    """,
}


def test_the_requirement_of_the_backend_that_the_message_names(trace: Of) -> None:
    made = trace(TABLE, gate("lib/gemm.py", 4, {100, 103}), gate("lib/gemm.py", 7, {100, 120}))
    (chain,) = ask(
        made, "lib.errors.BackendSupportedError: mm_small does not support backend 'fast' with capability 120"
    )
    assert [(hop.kind, hop.symbol) for hop in chain.hops] == [
        ("call", "_fast_requirement"),
        ("raise", "requires.decorator.wrapper"),
    ]
    (own,) = chain.hops[0].gates
    assert (own.line, own.status(TARGET), own.reached) == (4, Status.CLOSED, Reached.YES)
    (other,) = ask(made, "mm_small does not support backend 'plain' with capability 120")
    assert [own.status(TARGET) for own in other.hops[0].gates] == [Status.OPEN]


# flashinfer#2166, vllm#31936: the name of a backend stands for a class that answers for itself.
SELECTED = {
    "engine/backends.py": """
    from enum import Enum

    class BackendEnum(Enum):
        FAST_MLA = "engine.fast.FastBackend"
        PLAIN_MLA = "engine.plain.PlainBackend"

    def select(backend, capability):
        reasons = backend.invalid_reasons(capability)
        if reasons:
            raise ValueError(f"Selected backend {backend} is not valid for this configuration. Reason: {reasons}")
    """,
    "engine/fast.py": """
    class FastBackend:
        def supports_compute_capability(cls, capability):
            return capability.major == 10

        def supports_dtype(cls, dtype):
            return capability.major == 9
    """,
    "engine/plain.py": """
    class PlainBackend:
        def supports_compute_capability(cls, capability):
            return capability.major >= 8
    """,
}


def test_the_backend_that_the_message_names_answers_for_itself(trace: Of) -> None:
    gates = gate("engine/fast.py", 4, {100}), gate("engine/fast.py", 7, {90}), gate("engine/plain.py", 4, {120})
    text = "Selected backend BackendEnum.FAST_MLA is not valid for this configuration. Reason: "
    (chain,) = ask(trace(SELECTED, *gates), text + "['sparse not supported', 'compute capability not supported']")
    assert [(hop.kind, hop.symbol) for hop in chain.hops] == [
        ("call", "FastBackend.supports_compute_capability"),
        ("raise", "select"),
    ]
    assert [own.status(TARGET) for own in chain.hops[0].gates] == [Status.CLOSED]


# sglang#28297: one text in two packages; neither may hide the other.
TWICE = {
    f"{name}/attention.py": """
    class Attention:
        def __init__(self, arch):
            assert arch in (10, 11), "Only SM 10.x and 11.x are supported"
    """
    for name in ("library", "engine")
}


def test_each_place_that_writes_a_text_gets_its_chain(trace: Of) -> None:
    made = trace(TWICE, *(gate(f"{name}/attention.py", 4, {100, 110}) for name in ("library", "engine")))
    chains = ask(made, "AssertionError: Only SM 10.x and 11.x are supported")
    assert {chain.hops[-1].file for chain in chains} == {"library/attention.py", "engine/attention.py"}
    assert all(own.status(TARGET) is Status.CLOSED for chain in chains for own in chain.hops[-1].gates)


# flashinfer#2045: the traceback says which of several calls it was.
CALLS = {
    "lib/jit.py": """
    def flags(majors):
        raise RuntimeError(f"No architecture was found for majors {majors}.")

    def gen_softmax():
        return flags([10])

    def gen_moe():
        return flags([10])
    """,
}


def test_a_traceback_names_the_call(trace: Of) -> None:
    made = trace(CALLS, gate("lib/jit.py", 6, {100}), gate("lib/jit.py", 9, {100}))
    message = "RuntimeError: No architecture was found for majors [10]."
    assert len(ask(made, message)) == 2
    (chain,) = ask(made, f'File "/x/lib/jit.py", line 70, in gen_moe\n    return flags([10])\n{message}')
    (own,) = [own for hop in chain.hops for own in hop.gates]
    assert (own.line, own.status(TARGET)) == (9, Status.CLOSED)


# What a caller further up asks for is not the feature's flag.
UNRELATED = {
    "engine/args.py": """
    def add(parser):
        parser.add_argument("--decode-only")
        parser.add_argument("--fast-attention")
    """,
    "engine/server.py": """
    from library.attention import fast_attention

    def serve(args):
        if args.decode_only:
            start()

    def start():
        fast_attention()
    """,
    "library/attention.py": """
    def fast_attention():
        raise RuntimeError("the attention kernel of this card is missing")
    """,
}
MISSING = "the attention kernel of this card is missing"


def test_a_flag_that_has_nothing_to_do_with_it_is_not_named(trace: Of) -> None:
    (chain,) = ask(trace(UNRELATED), MISSING)
    assert [(hop.kind, hop.verified) for hop in chain.hops if hop.kind == "flag"] == [("flag", None)]
    assert ("call", "start") in [(hop.kind, hop.symbol) for hop in chain.hops]  # the engine's call of it is shown
    own = UNRELATED | {"engine/server.py": UNRELATED["engine/server.py"].replace("decode_only", "fast_attention")}
    (led,) = ask(trace(own), MISSING)
    assert [hop.symbol for hop in led.hops if hop.kind == "flag"] == ["--fast-attention"]


# sglang#9140 on a later release: only a part of the text is still written.
def test_a_part_of_a_text_is_told_to_be_a_part(trace: Of) -> None:
    made = trace(
        {
            "engine/args.py": """
            def settle(view):
                if not view.new:
                    raise ValueError("The other backend is only supported on newer GPUs (SM100), see the manual.")
            """
        },
        gate("engine/args.py", 3, {100}),
    )
    (chain,) = ask(made, "The first backend is only supported on newer GPUs (SM100), so choose.")
    assert any("another release or package may have printed it" in note for note in chain.notes)


def test_an_answer_is_followed_over_the_functions_that_hand_it_on(trace: Of) -> None:
    made = trace(
        {
            "engine/args.py": """
            class ServerArgs:
                attention_backend: str = "auto"

                def add(self, parser):
                    parser.add_argument("--attention-backend", dest="attention_backend")
            """,
            "engine/run.py": """
            from engine.table import BACKENDS

            def backends_of(args):
                return args.attention_backend, args.attention_backend

            def configured(args):
                return backends_of(args)

            def resolve(args):
                first, second = configured(args)
                return Resolved(first, second)

            def get_backend(args):
                resolved = resolve(args)
                return build(resolved)

            def build(resolved):
                return BACKENDS[resolved.first]()
            """,
            "engine/table.py": """
            BACKENDS = {}

            def register_attention_backend(name):
                def decorator(func):
                    BACKENDS[name] = func
                    return func
                return decorator

            @register_attention_backend("fast")
            def create_fast():
                return load_module("m", ["csrc/fast.cu"])
            """,
            "engine/csrc/fast.cu": "void fast() {}\n",
        }
    )
    chain = ask(made, "--attention-backend=fast")[0]
    assert [hop.symbol for hop in chain.hops if hop.kind in ("flag", "call")] == [
        "--attention-backend fast",
        "backends_of",
        "configured",
        "resolve",
        "get_backend",
        "build",
    ]


def test_a_refusal_inside_a_branch_for_the_target_is_not_put_on_another_device(trace: Of) -> None:
    made = trace(
        {
            "lib/forward.py": """
            def forward(arch, num_splits):
                if arch // 10 == 12:
                    assert num_splits == 1, "SM120 forward only supports num_splits=1"
                return arch
            """
        },
        gate("lib/forward.py", 3, {120, 121}),
    )
    (chain,) = ask(made, "AssertionError: SM120 forward only supports num_splits=1")
    notes = " ".join(chain.notes)
    assert "in a branch that is for sm_120" in notes and "another device" not in notes


# flashinfer#5399: one requirement for every backend, given to the decorator by name.
FOR_ALL = TABLE | {
    "lib/moe.py": """
    from lib.utils import requires, supported

    @supported([100, 103])
    def _moe_supported(a): ...

    @requires({}, common_check=_moe_supported)
    def small_moe(a): ...
    """,
    "lib/utils.py": """
    def requires(table, common_check=None):
        def decorator(func):
            def wrapper(*args, capability):
                if not common_check.supports(capability):
                    raise ValueError(f"{func.__name__} does not support compute capability {capability}")
                if not common_check(*args):
                    raise ValueError(f"Problem size is not supported for {func.__name__}")
            return wrapper
        return decorator
    """,
}


def test_the_requirement_of_every_backend(trace: Of) -> None:
    made = trace(FOR_ALL, gate("lib/moe.py", 4, {100, 103}))
    (chain,) = ask(made, "BackendSupportedError: small_moe does not support compute capability 120")
    assert [hop.symbol for hop in chain.hops] == ["_moe_supported", "requires.decorator.wrapper"]
    assert [own.status(TARGET) for own in chain.hops[0].gates] == [Status.CLOSED]
    size = ask(made, "ValueError: Problem size is not supported for small_moe")
    assert "_moe_supported" not in [hop.symbol for chain in size for hop in chain.hops]


# vllm#33416: the member of an enumeration chooses a class, and the message says which of several enumerations.
EXPERTS = {
    f"engine/oracle/{name}.py": f"""
    from enum import Enum

    class {owner}(Enum):
        FAST_CUTLASS = "FAST_CUTLASS"

    def experts(backend):
        if backend == {owner}.FAST_CUTLASS:
            from engine.experts import {chosen}
            return {chosen}

    def unsupported(backend, reason):
        return (
            f"{kind} MoE backend '{{backend.value}}' does not support the "
            f"deployment configuration since {{reason}}."
        )
    """
    for name, owner, chosen, kind in (
        ("small", "SmallMoeBackend", "SmallExperts", "Small"),
        ("wide", "WideMoeBackend", "WideExperts", "Wide"),
    )
} | {
    "engine/experts.py": """
    class SmallExperts:
        def _supports_current_device():
            return is_family(100)

        def _supports_quant_scheme():
            return is_family(90)

    class WideExperts:
        def _supports_current_device():
            return is_family(120)
    """
}


def test_the_class_that_a_member_chooses_answers_for_itself(trace: Of) -> None:
    lines = {4: {100}, 7: {90}, 11: {120}}
    made = trace(EXPERTS, *(gate("engine/experts.py", line, passes) for line, passes in lines.items()))
    text = (
        "MoE backend 'FAST_CUTLASS' does not support the deployment configuration since kernel does not support current"
    )
    (chain,) = ask(made, f"ValueError: Small {text} device.")
    assert [hop.symbol for hop in chain.hops] == ["SmallExperts._supports_current_device", "unsupported"]
    assert [own.status(TARGET) for own in chain.hops[0].gates] == [Status.CLOSED]
    (other,) = ask(made, f"ValueError: Wide {text} device.")
    assert [own.status(TARGET) for own in other.hops[0].gates] == [Status.OPEN]


# sglang's nunchaku.py and sglang#35080: what a raise looks at was filled or chosen under a gate.
FILLED = {
    "engine/config.py": """
    def validate(devices):
        refused = []
        for major in devices:
            if major == 9:
                refused.append("Hopper")
            elif major not in (8, 10):
                refused.append("another")
        if refused:
            raise ValueError(f"This quantization is only supported on some devices: {refused}")

    def choose(backend, server_args):
        if is_blackwell():
            if is_small():
                allowed = {"triton", "fast"}
            else:
                allowed = {"triton"}
            assert backend in allowed, f"Only {allowed} backends are supported on this kind of device."
    """
}


def _last(chain: Chain) -> list[tuple[int, Status, str]]:
    return [(own.line, own.status(TARGET), own.role) for own in chain.hops[-1].gates]


def test_a_list_that_was_filled_under_a_gate_is_that_gate(trace: Of) -> None:
    refuses = replace(gate("engine/config.py", 7, {80, 100}), condition="major not in (8, 10)", sense=Sense.REFUSE)
    made = trace(FILLED, replace(gate("engine/config.py", 5, {90}), condition="major == 9"), refuses)
    (chain,) = ask(made, "ValueError: This quantization is only supported on some devices: ['another']")
    assert _last(chain) == [(7, Status.CLOSED, "use")]


@pytest.mark.parametrize("small", [{100}, {120}])
def test_a_set_that_a_gate_chooses_is_that_gate(trace: Of, small: set[int]) -> None:
    inner = replace(gate("engine/config.py", 14, small), condition="is_small()")
    made = trace(FILLED, replace(gate("engine/config.py", 13, {100, 120}), condition="is_blackwell()"), inner)
    (chain,) = ask(made, "AssertionError: Only {'triton'} backends are supported on this kind of device.")
    status = Status.OPEN if 120 in small else Status.CLOSED
    assert sorted(_last(chain)) == [(13, Status.OPEN, "branch"), (14, status, "use")]


def test_a_negated_predicate_is_no_branch_of_the_target(trace: Of) -> None:
    body = 'def check():\n    if not is_new():\n        raise ValueError("This quantization needs a newer device")\n'
    made = trace({"lib/check.py": body}, replace(gate("lib/check.py", 2, {120}), condition="is_new()"))
    (chain,) = ask(made, "This quantization needs a newer device")
    assert [own.role for own in chain.hops[-1].gates] == ["use"] and "another device" in " ".join(chain.notes)
