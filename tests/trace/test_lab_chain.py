"""The lab's feature, from the flag to the kernel: a real pair of packages, read as FlashInfer and SGLang are."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.trace.conftest import TARGET, gate

from ungate import recipes
from ungate.host.packages import Package
from ungate.model import Chain, Reached, ScanResult
from ungate.trace import Trace, ask, chain

FUSION = "labkernels/data/include/labkernels/comm/allreduce_fusion.h"
TWO_SHOT = "labkernels/data/include/labkernels/comm/allreduce.h"


def line(packages: tuple[Package, ...], file: str, text: str, number: int = 1) -> int:
    """The 1-based line of the n-th line that holds a text."""
    lines = (packages[0].root / file).read_text().splitlines()
    return [at for at, each in enumerate(lines, 1) if text in each][number - 1]


@pytest.fixture(scope="module")
def found(lab: tuple[Package, ...]) -> Chain:
    narrow = {90, 100, 103}
    device = "__CUDA_ARCH__ >= 900"
    gates = (
        gate("labengine/server_args.py", line(lab, "labengine/server_args.py", "is_sm90_supported() or"), narrow),
        gate("labengine/communicator.py", line(lab, "labengine/communicator.py", "(_is_sm90_supported or"), narrow),
        gate("labkernels/jit/comm.py", line(lab, "labkernels/jit/comm.py", "[9, 10]"), narrow),
        gate(FUSION, line(lab, FUSION, device, 1), narrow),
        gate(FUSION, line(lab, FUSION, device, 2), narrow),
        gate(TWO_SHOT, line(lab, TWO_SHOT, device, 1), narrow),
        gate(TWO_SHOT, line(lab, TWO_SHOT, device, 2), narrow),
    )
    return chain(recipes.load("lab-allreduce-fusion"), lab, ScanResult(gates), TARGET)


def test_hops_stand_in_order_and_all_are_verified(found: Chain) -> None:
    assert [(hop.kind, hop.file, hop.symbol) for hop in found.hops] == [
        ("flag", "labengine/server_args.py", "--enable-fused-allreduce"),
        ("default", "labengine/server_args.py", "ServerArgs._handle_model_specific_adjustments"),
        ("call", "labengine/communicator.py", "apply_fused_allreduce"),
        ("call", "labengine/communicator.py", "LayerCommunicator.reduce_and_norm"),
        ("call", "labengine/layernorm.py", "RMSNorm.forward_with_allreduce_fusion"),
        ("call", "labengine/fused_comm.py", "labkernels_allreduce_residual_rmsnorm"),
        ("call", "labkernels/comm/allreduce_fusion.py", "allreduce_fusion"),
        ("jit-module", "labkernels/jit/comm.py", "gen_allreduce_comm_module"),
        ("source", "labkernels/data/csrc/allreduce_fusion.cpp", "allreduce_fusion"),
        ("kernel", FUSION, "lab_kernel_lamport_one_shot_allreduce_norm"),
    ]
    assert all(hop.verified for hop in found.hops)


def test_each_hop_names_the_line_where_it_leads_on(found: Chain, lab: tuple[Package, ...]) -> None:
    for hop, text in zip(
        found.hops,
        (
            '"--enable-fused-allreduce"',
            "not self.enable_fused_allreduce",
            "get_global_server_args().enable_fused_allreduce",
            "layernorm.forward_with_allreduce_fusion",
            "labkernels_allreduce_residual_rmsnorm(",
            "comm.allreduce_fusion(",
            "workspace.module.allreduce_fusion",
            "def gen_allreduce_comm_module",
            "allreduce_fusion(FusionParams",
            "__global__ void lab_kernel_lamport_one_shot",
        ),
        strict=True,
    ):
        assert text in (lab[0].root / hop.file).read_text().splitlines()[hop.line - 1]


def test_the_default_is_marked_and_says_that_the_flag_goes_round_it(found: Chain) -> None:
    default = found.hops[1]
    assert [(each.role, each.reached) for each in default.gates] == [("default", Reached.YES)]
    assert "bypasses" in default.note
    assert found.hops[2].gates[0].role == "use"


def test_quiet_second_tests_are_listed_with_their_numbers(found: Chain) -> None:
    tests = " ".join(found.hops[2].tests)
    assert "batch_size <= FUSE_ALLREDUCE_MAX_BATCH_SIZE (FUSE_ALLREDUCE_MAX_BATCH_SIZE = 64)" in tests
    assert "get_tensor_model_parallel_world_size() > 1" in tests


def test_both_kernels_of_the_served_path_are_reached(found: Chain) -> None:
    kernel = found.hops[-1]
    assert [each.reached for each in kernel.gates] == [Reached.YES, Reached.YES]


def test_the_co_compiled_source_stands_apart_and_is_not_reached(found: Chain) -> None:
    assert [(hop.kind, hop.file) for hop in found.apart] == [
        ("source", "labkernels/data/csrc/allreduce.cpp"),
        ("kernel", TWO_SHOT),
    ]
    assert [each.reached for each in found.apart[1].gates] == [Reached.NO, Reached.NO]
    assert "not called by this engine" in found.apart[0].note


@pytest.mark.parametrize(
    "question",
    [
        pytest.param("--enable-fused-allreduce", id="flag"),
        pytest.param("enable_fused_allreduce", id="attribute"),
        pytest.param("labkernels.comm:allreduce_fusion", id="symbol"),
        pytest.param("gen_allreduce_comm_module", id="build-function"),
        pytest.param("No supported CUDA architectures found for major versions [9, 10].", id="error-text"),
    ],
)
def test_every_way_of_asking_comes_to_the_same_ends(lab: tuple[Package, ...], question: str) -> None:
    chains = ask(Trace(lab, ScanResult(()), TARGET), question)
    assert (chains[0].hops[0].kind, chains[0].hops[0].symbol) == ("flag", "--enable-fused-allreduce")
    assert chains[0].hops[-1].symbol == "lab_kernel_lamport_one_shot_allreduce_norm"


def test_a_library_without_an_engine_beside_it_leaves_open_what_is_called(lab: tuple[Package, ...]) -> None:
    """SGLang's own kernels are of that kind: the library is the engine, and nothing shows what it does not call."""
    recipe = replace(recipes.load("lab-allreduce-fusion"), packages=("lab-kernels",), attribute="", flag="")
    gates = (gate(TWO_SHOT, line(lab, TWO_SHOT, "__CUDA_ARCH__ >= 900"), {90}),)
    alone = chain(recipe, lab[:1], ScanResult(gates), TARGET)
    reached = [found.reached for hop in (*alone.hops, *alone.apart) for found in hop.gates if found.file == TWO_SHOT]
    assert reached and Reached.NO not in reached
