"""The files that run inside the serving Python, the shapes of a size, what the command refuses; without PyTorch."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

import ungate.probe
from ungate.cli.main import main
from ungate.cli.probe import told
from ungate.pipeline.probing import Probe
from ungate.probe.candidates import Facts, candidates
from ungate.probe.measuring import ITEM_SIZES
from ungate.probe.records import Cell, Entrant, Measured, Request, State, Survey
from ungate.probe.shapes import VECTOR, shapes

ROOM = Path(ungate.probe.__file__).parent
INSIDE = sorted([*(ROOM / "serving").glob("*.py"), *(ROOM / "candidates").glob("*.py"), ROOM / "__init__.py"])


@pytest.mark.parametrize("file", INSIDE, ids=lambda file: file.stem)
def test_what_runs_inside_the_serving_python_needs_nothing_but_pytorch(file: Path) -> None:
    tree = ast.parse(file.read_text("utf-8"), feature_version=(3, 10))
    for node in ast.walk(tree):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        for name in names:
            top = name.partition(".")[0]
            own = name.startswith(("ungate.probe.candidates", "ungate.probe.serving"))
            assert own or top == "torch" or top in sys.stdlib_module_names, f"{file.name} imports {name}"


def test_what_engines_use_is_there_and_one_of_each_device_is_the_baseline() -> None:
    found = {each.name: each for each in candidates()}
    assert {"nccl", "nccl-no-p2p", "gloo", "cpu-shm", "ungate-host", "ungate-push", "ungate-pull"} <= found.keys()
    assert {
        "flashinfer-oneshot",
        "flashinfer-twoshot",
        "flashinfer-vllm",
        "vllm-custom",
        "sglang-custom",
    } <= found.keys()
    assert {each.device: each.name for each in found.values() if each.baseline} == {"cuda": "nccl", "cpu": "gloo"}
    assert not any("torch" in sys.modules[each.open.__module__].__dict__ for each in found.values())


@pytest.mark.parametrize("peer", [True, False, None])
def test_every_reason_is_a_whole_sentence(peer: bool | None) -> None:
    bare = Facts(
        "cuda", 3, architecture="aarch64", torch="2.5.0", visible=3, peer=peer, settings={"NCCL_PROTO": "Simple"}
    )
    for each in candidates():
        said = each.unavailable(bare)
        assert said and said[0].isupper() and (said.endswith(".") or ": " in said), f"{each.name}: {said!r}"


def test_what_nccl_does_already_is_not_measured_twice() -> None:
    found = {each.name: each for each in candidates()}
    without = Facts("cuda", 2, torch="2.9.0", nccl="2.28.9", peer=False)
    assert found["nccl"].unavailable(without) == ""
    assert "runs without it already" in found["nccl-no-p2p"].unavailable(without)
    told = Facts("cuda", 2, torch="2.9.0", nccl="2.28.9", peer=True, settings={"NCCL_P2P_DISABLE": "1"})
    assert "NCCL_P2P_DISABLE is set" in found["nccl-no-p2p"].unavailable(told)
    assert found["nccl-no-p2p"].unavailable(Facts("cuda", 2, torch="2.9.0", nccl="2.28.9", peer=True)) == ""


@pytest.mark.parametrize("size", [16, 48, 4096, 8192, 10_000, 16 << 10, 1 << 20, 3 << 20])
@pytest.mark.parametrize("itemsize", sorted(set(ITEM_SIZES.values())))
def test_the_timed_shape_is_the_size_and_the_others_differ_and_fit(size: int, itemsize: int) -> None:
    first, *others = shapes(size, itemsize)
    assert first.elements * itemsize == size
    assert len({first, *others}) == 1 + len(others)
    assert all(0 < each.elements * itemsize <= size for each in others)
    assert all(each.elements * itemsize % VECTOR == 0 for each in others)
    assert others or size == VECTOR


def _refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["probe", "allreduce", *words]) == 3
    out, err = capsys.readouterr()
    assert out == "" and "Traceback" not in err
    return err


@pytest.mark.parametrize("sizes", ["0", "4X", "", "100", "2000M", "4K,,16K", "-4K"])
def test_a_size_that_is_none(sizes: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "is no size" in _refused(capsys, "--sizes", sizes)


def test_a_place_that_cannot_keep_the_document_is_told_before_anything_is_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "mkdir -p" in _refused(capsys, "--out", str(tmp_path / "not there" / "x.json"))


def _without_torch(tmp_path: Path) -> Path:
    python = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(python)], check=True, timeout=120)
    return python / "bin" / "python"


def test_a_python_without_pytorch_is_an_error_with_a_document(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    python = _without_torch(tmp_path)
    assert main(["probe", "allreduce", "--python", str(python), "--json"]) == 3
    out, err = capsys.readouterr()
    told = json.loads(out)
    assert told["exit"] == 3 and "This Python has no PyTorch." in told["error"] and "--python" in told["next"]
    assert "No allreduce candidate can run" in err


def test_a_python_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "does not exist" in _refused(capsys, "--python", str(tmp_path / "python"))


def test_the_table_holds_what_ran_and_names_what_was_not_there_once() -> None:
    def entrant(name: str) -> Entrant:
        return Entrant(name, f"what {name} is", "ask for it", "cuda", {}, name == "nccl", 1.0, "")

    facts = Facts(
        torch="2.11.0",
        device="cuda",
        world=2,
        gpus=(
            "NVIDIA H200 141211f2-8c05-a730-4176-2ac84d19b56c",
            "NVIDIA H200 GPU-4478011f-9372-28f3-98e4-8bb6c8aedec5",
        ),
        peer=True,
    )
    measured = (
        Measured(entrant("nccl"), State.OK, cells=(Cell("nccl", 8192, State.OK, us=(6.5, 6.6)),)),
        Measured(
            entrant("late"),
            State.UNAVAILABLE,
            "This FlashInfer has no such workspace.",
            cells=(Cell("late", 8192, State.ENDED),),
        ),
        Measured(entrant("shaky"), State.OK, cells=(Cell("shaky", 8192, State.OK, us=(1.0, 2.0, 9.0)),)),
    )
    request = Request((8192,), world=2, device="cuda", rounds=3)
    found = Probe(request, Survey(facts, ()), measured, ((8192, None),), (), None, "2026-11-30")
    console = Console(width=120, file=(out := StringIO()))
    for part in told(found, console.width):
        console.print(part)
    text = out.getvalue()
    assert "bfloat16, NVIDIA H200, 2 ranks" in text
    assert "ended" not in text and text.count("late") == 1
    assert "late  unavailable  This FlashInfer has no such workspace." in text
    assert "400 % of it apart (shaky at 8 KiB)" in text
    assert "8 KiB: 1 of 3 rounds took up to 9 us a call." in text and text.count("took up to") == 1
