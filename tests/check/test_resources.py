"""Shared memory and clusters against the target's limits."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.check.conftest import Ask

from ungate.check.limits import SHARED_PER_BLOCK, read_traits
from ungate.host.index import fetch
from ungate.model import KNOWN_ARCHS

GATED = "#if __CUDA_ARCH__ >= 1000 && __CUDA_ARCH__ < 1200\n"
LAUNCH = (
    "constexpr int kStages = 7;\nint run() {\n" + GATED + "  cudaFuncSetAttribute(kernel, "
    "cudaFuncAttributeMaxDynamicSharedMemorySize, kStages * 32 * 1024);\n#endif\n  return 0;\n}\n"
)
CAPACITY = (
    "void stages() {\n" + GATED + "  constexpr int n = cutlass::arch::sm100_smem_capacity_bytes / kTile;\n#endif\n}\n"
)
CLUSTER = "void launch() {{\n" + GATED + "  attribute[0].id = cudaLaunchAttributeClusterDimension;\n{}#endif\n}}\n"


@pytest.mark.parametrize(
    ("source", "opened"),
    [
        (LAUNCH, 0),
        (LAUNCH.replace("kStages = 7", "kStages = 3"), 1),
        (LAUNCH.replace("kStages = 7", "kStages = pick()"), 1),
        (LAUNCH.replace("  cudaFunc", "  // cudaFunc"), 1),
        (CAPACITY.replace("sm100", "sm120"), 1),
        (CLUSTER.format(""), 1),
        (CLUSTER.format("  attribute[0].val.clusterDim.x = 8;\n"), 1),
    ],
    ids=["closed", "fits", "not known", "comment", "own capacity", "no size", "portable"],
)
def test_nothing(ask: Ask, source: str, opened: int) -> None:
    assert ask("resources", source, opened=opened, name="k.cu") == ()


def test_more_than_a_block_may_take(ask: Ask) -> None:
    (finding,) = ask("resources", LAUNCH, opened=1, name="k.cu")
    assert finding.what == "run asks for 229376 bytes of shared memory a block, and sm_120 has 101376"
    assert finding.severity == "danger" and finding.line == 4 and "arch_traits" in finding.evidence


def test_a_demand_in_hexadecimal_through_the_driver(ask: Ask) -> None:
    """executorch#21827: a kernel laid out for sm_80 that asks for 0x20000 bytes on an RTX 5090."""
    driver = LAUNCH.replace(
        "cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kStages * 32 * 1024)",
        "cuFuncSetAttribute(func, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 0x20000)",
    )
    (finding,) = ask("resources", driver, opened=1, name="k.cu")
    assert "asks for 131072 bytes of shared memory a block, and sm_120 has 101376" in finding.what
    assert ask("resources", driver, target=80, name="k.cu") == ()


def test_a_name_of_another_function_is_another_variable(ask: Ask) -> None:
    """FlashInfer 0.7.4, topk.cuh: one launcher has a constant of that name, others ask the device."""
    other = "void filtered() {\n  constexpr int bytes = 131072;\n  use(bytes);\n}\n"
    own = LAUNCH.replace("int run() {\n", "int run() {\n  int bytes;\n  ask(&bytes);\n").replace(
        "kStages * 32 * 1024", "bytes"
    )
    assert ask("resources", other + own, opened=1, name="k.cu") == ()
    # A template with attributes is no function to a reader of C, and its braces are braces.
    strange = (
        "template <typename T>\n__attribute__((x)) auto filtered() -> decltype(T()) {\n  const int bytes = 131072;\n}\n"
    )
    assert ask("resources", strange + own, opened=1, name="k.cu") == ()
    inside = (
        "namespace a {\nconstexpr int bytes = 131072;\n}\nnamespace a {\n" + own.replace("  int bytes;\n", "") + "}\n"
    )
    (finding,) = ask("resources", inside, opened=1, name="k.cu")
    assert "asks for 131072 bytes" in finding.what
    constant = own.replace("int bytes;\n", "constexpr int bytes = 131072;\n")
    (finding,) = ask("resources", other.replace("131072", "1024") + constant, opened=1, name="k.cu")
    assert "asks for 131072 bytes" in finding.what


def test_a_file_that_asks_the_device_may_not_come_to_the_launch(ask: Ask) -> None:
    guard = "bool fits() {\n  cudaDeviceGetAttribute(&n, cudaDevAttrMaxSharedMemoryPerMultiprocessor, 0);\n}\n"
    (finding,) = ask("resources", guard + LAUNCH, opened=1, name="k.cu")
    assert (finding.severity, finding.confidence) == ("warning", "medium")
    assert finding.what.endswith("the file asks the device how much it has, and may not come to this launch")


def test_clusters_of_one_size_are_one_finding(ask: Ask) -> None:
    twice = CLUSTER.format("  attribute[0].val.clusterDim.x = 16;\n  attribute[1].val.clusterDim.x = 16;\n")
    (finding,) = ask("resources", twice, opened=1, name="k.cu")
    assert finding.what.startswith("launch launches clusters of 16 blocks in 2 places; more than 8")


def test_the_same_demand_fits_another_target(ask: Ask) -> None:
    older = LAUNCH.replace(">= 1000 && __CUDA_ARCH__ < 1200", ">= 1000")
    assert ask("resources", older, target=90, opened=1, name="k.cu") == ()
    assert len(ask("resources", older, target=89, opened=1, name="k.cu")) == 1


def test_stages_that_are_sized_for_another_architecture(ask: Ask) -> None:
    (finding,) = ask("resources", CAPACITY, opened=1, name="k.cu")
    assert "232448 bytes of shared memory a block of sm_100, and sm_120 has 101376" in finding.what
    assert finding.severity == "warning"


def test_clusters_on_a_target_without_them(ask: Ask) -> None:
    source = CLUSTER.format("").replace(">= 1000 && __CUDA_ARCH__ < 1200", ">= 900")
    (finding,) = ask("resources", source, target=89, opened=1, name="k.cu")
    assert "launches thread block clusters, which sm_89 does not have" in finding.what


def test_a_cluster_that_is_not_portable(ask: Ask) -> None:
    (finding,) = ask("resources", CLUSTER.format("  attribute[0].val.clusterDim.x = 16;\n"), opened=1, name="k.cu")
    assert "clusters of 16 blocks" in finding.what and finding.severity == "warning"


@pytest.mark.wheels
def test_the_limits_are_those_of_the_header() -> None:
    header = fetch("flashinfer-python==0.6.16") / "flashinfer/data/cccl/libcudacxx/include/cuda/__device/arch_traits.h"
    there = read_traits(Path(header).read_text())
    assert {arch: there[arch] for arch in SHARED_PER_BLOCK} == dict(SHARED_PER_BLOCK)
    assert set(KNOWN_ARCHS) - SHARED_PER_BLOCK.keys() == {107} and 107 not in there
