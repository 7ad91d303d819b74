"""From the text of an error to the statement that writes it, in Python, in C++ and in the CUDA runtime."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.trace.conftest import TARGET, gate

from ungate.errors import Refusal
from ungate.model import Reached, Status
from ungate.trace import Trace, ask
from ungate.trace.ask_runtime import of_runtime, rest_of
from ungate.trace.runtime_errors import known
from ungate.trace.texts import fixed, matched, parts_of
from ungate.trace.thrown import thrown

Of = Callable[..., Trace]


@pytest.mark.parametrize(
    ("written", "shown", "values"),
    [
        pytest.param("f'needs sm_{major} here'", "needs sm_90 here", {"major": "90"}, id="f-string"),
        pytest.param("'needs sm_%d here' % major", "needs sm_90 here", {"major": "90"}, id="percent"),
        pytest.param("'needs %s, has %s' % (a, b)", "needs 90, has 120", {"a": "90", "b": "120"}, id="percents"),
        pytest.param("'needs sm_{} here'.format(major)", "needs sm_90 here", {"major": "90"}, id="format"),
        pytest.param("'needs sm_' + str(major) + ' here'", "needs sm_90 here", {"str(major)": "90"}, id="plus"),
        pytest.param("log.error('needs sm_%s here', major)", "needs sm_90 here", {"major": "90"}, id="logger"),
        pytest.param("'needs this ' 'kernel here'", "E: needs this kernel here!", {}, id="side by side"),
        pytest.param("'needs a newer card than this one'", "newer card than", {}, id="a piece was quoted"),
    ],
)
def test_a_message_is_known_however_it_is_written(written: str, shown: str, values: dict[str, str]) -> None:
    parts = parts_of(ast.parse(written, mode="eval").body)
    assert parts is not None
    found = matched(parts, shown)
    assert found is not None and found[1] == values


@pytest.mark.parametrize("shown", ["needs a kernel", "something else entirely", "sm_90 here"])
def test_another_message_is_not(shown: str) -> None:
    parts = parts_of(ast.parse("f'needs sm_{major} here, but not there'", mode="eval").body)
    assert parts is not None and fixed(parts) == "needs sm_… here, but not there"
    assert matched(parts, shown) is None


SERVER = {
    "app/server_args.py": """
    from app.platform import is_new

    class ServerArgs:
        backend_name: str = "auto"

        def add(self, parser):
            parser.add_argument("--backend-name", dest="backend_name")

        def settle(self):
            if self.backend_name == "fast":
                if not is_new():
                    raise ValueError(
                        "The fast backend is only supported on new cards. "
                        "Please use a different one."
                    )
    """,
    "app/platform.py": "def is_new(): ...\n",
}


def test_a_raise_has_its_own_gate_and_the_flag_that_leads_there(trace: Of) -> None:
    made = trace(SERVER, gate("app/server_args.py", 11, {100}, names=("is_new",)))
    (chain, *_) = ask(made, "ValueError: The fast backend is only supported on new cards. Please use a different one.")
    assert [(hop.kind, hop.symbol, hop.verified) for hop in chain.hops] == [
        ("flag", "--backend-name fast", True),
        ("raise", "ServerArgs.settle", True),
    ]
    (own,) = chain.hops[-1].gates
    assert (own.status(TARGET), own.reached) == (Status.CLOSED, Reached.YES)


BARE = {
    "app/layers/fast.py": """
    from app.platform import is_new

    class Fast:
        def __init__(self, size):
            assert is_new() and size > 0
            self.size = size

        def again(self, size):
            assert is_new() and size > 0
    """,
    "app/layers/slow.py": """
    from app.platform import is_new

    class Slow:
        def __init__(self, size):
            assert is_new() and size > 0
    """,
    "app/platform.py": "def is_new(): ...\n",
}


@pytest.mark.parametrize(
    ("frames", "place"),
    [
        pytest.param('File "/opt/x/app/layers/slow.py", line 400, in __init__', ("app/layers/slow.py", 6), id="file"),
        pytest.param('File "/opt/x/app/layers/fast.py", line 90, in again', ("app/layers/fast.py", 10), id="function"),
        pytest.param(
            '(TP0) E   File "C:\\app\\layers\\fast.py", line 2, in __init__', ("app/layers/fast.py", 6), id="log"
        ),
        pytest.param("", ("app/layers/fast.py", 6), id="statement-alone"),
    ],
)
def test_a_traceback_without_a_message_leads_to_its_assert(trace: Of, frames: str, place: tuple[str, int]) -> None:
    made = trace(BARE, *(gate(*at, {100}, names=("is_new",)) for at in {("app/layers/slow.py", 6), place}))
    text = f"{frames}\n    assert is_new() and size > 0\n           ^^^^^^^^\nAssertionError\n"
    (chain,) = ask(made, text)
    assert (chain.hops[-1].kind, chain.hops[-1].file, chain.hops[-1].line) == ("raise", *place)
    assert [own.status(TARGET) for own in chain.hops[-1].gates] == [Status.CLOSED]
    assert chain.notes[0].startswith(f"The statement stands at {place[0]}:{place[1]} ")


def test_a_few_words_of_a_file_that_is_not_here_lead_nowhere(trace: Of) -> None:
    made = trace({"lib/csrc/run.cuh": 'void run() {\n  CHECK(ok(), "Unsupported architecture");\n}\n'})
    assert ask(made, "Assertion error (/x/run.cuh:37): Unsupported architecture")[0].hops[-1].line == 2
    with pytest.raises(Refusal):
        ask(made, "Assertion error (/other/csrc/apis/attention.hpp:219): Unsupported architecture")


def test_a_long_question_is_not_repeated_whole(trace: Of) -> None:
    with pytest.raises(Refusal) as refused:
        ask(trace(BARE), "first line\n" * 50 + "x y " * 500)
    assert len(refused.value.what) < 600 and "\n" not in refused.value.what


@pytest.mark.parametrize("text", ["assert is_old() and size > 0", "they assert is_new() and size > 0"])
def test_a_statement_that_no_package_holds_leads_nowhere(trace: Of, text: str) -> None:
    with pytest.raises(Refusal, match="is no flag"):
        ask(trace(BARE), text)


BUILDER = {
    "lib/context.py": """
    import os
    import logging
    import torch

    def normal(major):
        if major == 12 and not new_toolkit():
            raise RuntimeError("SM 12.x needs a newer toolkit")
        return major

    class Context:
        def __init__(self):
            self.archs = set()
            if "LIB_ARCH_LIST" in os.environ:
                self.archs.add(os.environ["LIB_ARCH_LIST"])
            else:
                try:
                    self.archs.add(normal(torch.cuda.get_device_capability()[0]))
                except Exception as error:
                    logging.warning("no capability: %s", error)

        def flags(self, majors):
            found = [arch for arch in self.archs if arch in majors]
            if len(found) == 0:
                raise RuntimeError(f"No supported architecture was found for majors {majors}.")
    """,
    "lib/jit.py": """
    from lib.context import Context

    def gen_new():
        return Context().flags([12])

    def gen_old():
        return Context().flags([9, 10])
    """,
}


def test_a_list_that_has_the_target_points_to_what_was_found_on_the_machine(trace: Of) -> None:
    made = trace(BUILDER, gate("lib/jit.py", 5, {120, 121}), gate("lib/jit.py", 8, {90, 100, 103}))
    (chain,) = ask(made, "RuntimeError: No supported architecture was found for majors [12].")
    kinds = [(hop.kind, hop.symbol) for hop in chain.hops]
    assert kinds == [
        ("source", "Context.__init__"),
        ("source", "Context.__init__"),
        ("raise", "Context.flags"),
        ("call", "gen_new"),
    ]
    assert "only logged" in chain.hops[1].note
    assert any("SM 12.x needs a newer toolkit" in test for test in chain.hops[1].tests)
    assert any("LIB_ARCH_LIST" in test for test in chain.hops[0].tests)
    assert any("no gate is to be opened" in note for note in chain.notes)
    (closed, *_) = ask(made, "RuntimeError: No supported architecture was found for majors [9, 10].")
    assert not any("no gate is to be opened" in note for note in closed.notes)


NATIVE = {
    "lib/jit.py": """
    def gen_module():
        return load_module("m", ["csrc/launch.cu"])
    """,
    "lib/csrc/launch.cu": """
    #include "../include/lib/kernel.cuh"
    void launch(int major, int tokens) {
      // MoE kernels need capability 10 or newer cards
      ICHECK_EQ(major, 10) << "This MoE kernel needs capability 10.x, the device has "
                           << major << " instead";
      if (tokens > 2048) {
        throw std::runtime_error("too many tokens were handed over for "
                                 "the one-shot kernel");
      }
      run();
    }
    TVM_FFI_DLL_EXPORT_TYPED_FUNC(launch, launch);
    """,
    "lib/include/lib/kernel.cuh": """
    inline void run() {
    #if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 1200
      go();
    #else
      printf("this kernel was compiled out for %d here\\n", 3);
    #endif
    }
    """,
}


@pytest.mark.parametrize(
    ("text", "file", "condition"),
    [
        pytest.param(
            "This MoE kernel needs capability 10.x, the device has 12 instead",
            "lib/csrc/launch.cu",
            "not (major == 10)",
            id="a check's first arguments",
        ),
        pytest.param(
            "too many tokens were handed over for the one-shot kernel",
            "lib/csrc/launch.cu",
            "tokens > 2048",
            id="the if around a throw",
        ),
        pytest.param(
            "this kernel was compiled out for 3 here", "lib/include/lib/kernel.cuh", "", id="what else is left"
        ),
    ],
)
def test_a_message_of_cuda_code(trace: Of, text: str, file: str, condition: str) -> None:
    made = trace(NATIVE, gate("lib/include/lib/kernel.cuh", 3, {90, 100}))
    hit = thrown(made.corpus, text)[0]
    assert (hit.file, hit.condition) == (file, condition)
    (chain,) = ask(made, text)
    last = chain.hops[-1]
    assert (last.kind, last.file) == ("raise", file)
    assert any(hop.kind == "jit-module" and hop.symbol == "gen_module" for hop in chain.hops)
    assert bool(last.gates) == (file.endswith(".cuh"))
    assert not any(hop.kind in ("source", "include", "kernel") for hop in chain.hops)  # they were built and did run
    assert any("around the statement itself" in note for note in chain.notes) != bool(last.gates)


def test_the_file_that_a_message_names_comes_first(trace: Of) -> None:
    body = 'void check(int sm) { if (sm != 100) { FLASH_ERROR("Unsupported architecture"); } }\n'
    made = trace({f"lib/include/{name}.cuh": body for name in ("one", "two", "three")})
    text = "Error in function 'check' at /x/include/two.cuh:1: Unsupported architecture"
    assert next(hit.file for hit in thrown(made.corpus, text)) == "lib/include/two.cuh"
    assert thrown(made.corpus, text)[0].condition == "sm != 100"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("CUDA error: no kernel image is available for execution on the device", "cudaErrorNoKernelImageForDevice"),
        ("torch.AcceleratorError: CUDA error: invalid device function", "cudaErrorInvalidDeviceFunction"),
        ("the provided PTX was compiled with an unsupported toolchain.", "cudaErrorUnsupportedPtxVersion"),
        ("CUDA error: an illegal instruction was encountered", "cudaErrorIllegalInstruction"),
        ("too many resources requested for launch", "cudaErrorLaunchOutOfResources"),
        ("CUDA error: unknown error", "cudaErrorUnknown"),
        (
            "RTX 5090 with CUDA capability sm_120 is not compatible with the current PyTorch installation.",
            "PyTorch: GPU not in its list",
        ),
        (
            "out of resource: shared memory, Required: 106496, Hardware limit: 101376.",
            "Triton: out of resources",
        ),
        ("nvcc fatal   : Unsupported gpu architecture 'compute_120a'", "nvcc: unsupported architecture"),
        ("ptxas fatal   : Value 'sm_110a' is not defined for option 'gpu-name'", "ptxas: unknown architecture"),
        ("ptxas error : Instruction 'tcgen05.mma' not supported on .target 'sm_120a'", "ptxas: not on this target"),
    ],
)
def test_the_runtimes_own_texts(text: str, name: str, tmp_path: Path) -> None:
    error = known(text)
    assert error is not None and error.name == name
    chain = of_runtime(text, (tmp_path,), TARGET)
    assert chain is not None and chain.hops == () and chain.notes[0].startswith(name)
    assert rest_of(text) == "" or "nvcc" in text or "ptxas" in text


def test_a_message_around_the_runtimes_text_is_looked_for_too() -> None:
    assert rest_of("FlashPrefill failed to run its kernel: no kernel image is available for execution on the device")
    assert known("The fast backend is only supported on new cards") is None
