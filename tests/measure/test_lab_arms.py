"""The proofs on real servers: the lab with its blocking allreduce, with the fused one, with one that returns NaN."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import ungate.lab
from ungate.launch import detect, ports, serve, wait_ready
from ungate.measure import activation, ladder
from ungate.measure.activation import Proof, Reading
from ungate.measure.answers import Answers, Rung, collect
from ungate.model import Cell

LAB = Path(ungate.lab.__file__).parent
CELL = Cell(concurrency=2, prompt_tokens=16, output_tokens=4)
LADDER = (Rung(1, 1, 8), Rung(1, 17, 8), Rung(2, 64, 8))
PROOF = {"log": "fused allreduce active", "counter": "lab:fused_calls_total"}


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kernels")


def arm(cache: Path, folder: Path, *arguments: str, **more: str) -> tuple[Answers, Reading]:
    argv = (sys.executable, "-m", "labengine.launch", "--model", "lab-next", "--tp", "2")
    environment = {"PYTHONPATH": f"{LAB / 'engine'}:{LAB / 'kernels'}", "LAB_KERNELS_CACHE": str(cache), **more}
    with serve(
        argv,
        engine=detect(argv),
        environment=environment,
        port=ports.free_port(),
        folder=folder,
        deadline_s=120,
        arguments=arguments,
    ) as server:
        wait_ready(server, CELL)
        answers = collect(server.url, server.model, LADDER, repeats=2)
        return answers, activation.read(server.url, PROOF, log=server.log.path)


@pytest.fixture(scope="module")
def baseline(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Answers, Reading]:
    return arm(cache, tmp_path_factory.mktemp("baseline"))


def test_the_fused_path_runs_in_one_arm_only_and_answers_the_same(
    baseline: tuple[Answers, Reading], cache: Path, tmp_path: Path
) -> None:
    """On an architecture that the lab's library supports; opening it for another one is the pipeline's matter."""
    candidate = arm(cache, tmp_path, "--enable-fused-allreduce", LAB_CUDA_ARCH_LIST="9.0")
    proof = activation.prove(baseline[1], candidate[1])
    assert proof.proof is Proof.PROVED and "fused allreduce active" in proof.evidence
    assert candidate[1].ways == {"log": True, "counter": True} and baseline[1].ways["counter"] is False
    compared = ladder.compare(baseline[0], candidate[0])
    assert compared.holds is True, compared.evidence
    assert all(result.floor is not None and result.max_shift is not None for result in compared.rungs)


def test_the_same_path_in_both_arms_is_disproved(baseline: tuple[Answers, Reading]) -> None:
    proof = activation.prove(baseline[1], baseline[1])
    assert proof.proof is Proof.DISPROVED and "did not run" in proof.evidence


def test_a_kernel_that_returns_nan_fails_the_ladder(
    baseline: tuple[Answers, Reading], cache: Path, tmp_path: Path
) -> None:
    candidate = arm(cache, tmp_path, LAB_FAULT="nan-after:1")
    compared = ladder.compare(baseline[0], candidate[0])
    assert compared.holds is False and "not a number" in compared.evidence
