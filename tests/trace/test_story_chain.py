"""The story on the real wheels: FlashInfer 0.6.3 and SGLang 0.5.9, scanned and traced."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.trace.conftest import TARGET

from ungate import recipes
from ungate.host.packages import Package, below
from ungate.model import Reached, ScanResult, Status
from ungate.scan import scan
from ungate.trace import Trace, ask

pytestmark = [pytest.mark.wheels, pytest.mark.timeout(900)]

COMM = "flashinfer/data/include/flashinfer/comm/"
WAY = [
    ("flag", "sglang/srt/server_args.py"),
    ("default", "sglang/srt/server_args.py"),
    ("call", "sglang/srt/layers/communicator.py"),
    ("call", "sglang/srt/layers/communicator.py"),
    ("call", "sglang/srt/layers/layernorm.py"),
    ("call", "sglang/srt/layers/flashinfer_comm_fusion.py"),
    ("call", "flashinfer/comm/trtllm_ar.py"),
    ("call", "flashinfer/comm/trtllm_ar.py"),
    ("jit-module", "flashinfer/jit/comm.py"),
    ("source", "flashinfer/data/csrc/trtllm_allreduce_fusion.cu"),
    ("kernel", COMM + "trtllm_allreduce_fusion.cuh"),
]


@pytest.fixture(scope="module")
def packages(story_site: Path) -> tuple[Package, ...]:
    return tuple(package for package in below(story_site) if package.name in ("flashinfer-python", "sglang"))


@pytest.fixture(scope="module")
def found(packages: tuple[Package, ...]) -> ScanResult:
    return scan(packages)


def test_the_chain_of_the_recipe(packages: tuple[Package, ...], found: ScanResult) -> None:
    chain = Trace(packages, found, TARGET).chain(recipes.load("flashinfer-allreduce-fusion"))
    assert [(hop.kind, hop.file) for hop in chain.hops if hop.kind != "include"] == WAY
    assert all(hop.verified for hop in chain.hops)
    closed = [gate for hop in chain.hops for gate in hop.gates if gate.status(TARGET) is Status.CLOSED]
    assert [(gate.file, gate.line, gate.role == "default") for gate in closed] == [
        ("sglang/srt/server_args.py", 1691, True),
        ("sglang/srt/layers/communicator.py", 95, False),
        ("flashinfer/jit/comm.py", 61, False),
    ]
    assert all(gate.reached is Reached.YES for gate in closed)
    held = [gate for hop in chain.apart for gate in hop.gates if gate.status(TARGET) is Status.CLOSED]
    assert [gate.file for gate in held] == [COMM + "trtllm_allreduce.cuh"] * 13
    assert all(gate.reached is Reached.NO for gate in held)


@pytest.mark.parametrize(
    "question",
    ["No supported CUDA architectures found for major versions [9, 10].", "--enable-flashinfer-allreduce-fusion"],
)
def test_a_message_and_a_flag_come_to_the_same_chain(packages: tuple[Package, ...], question: str) -> None:
    chain = ask(Trace(packages, ScanResult(()), TARGET), question)[0]
    assert [(hop.kind, hop.file) for hop in chain.hops if hop.kind != "include"] == WAY
