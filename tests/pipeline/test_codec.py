from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ungate.host.environment import resolve
from ungate.lab.install import install
from ungate.measure.telemetry import Window
from ungate.model import Arm, Cell, Decision, Place, Policy, PolicyRow, Sample, Target, Verdict
from ungate.pipeline import Request, new_folder, run
from ungate.pipeline.codec import pack, revised, unpack
from ungate.pipeline.records import Ablation, EarlyEnd, Records, StartRecord
from ungate.recipes import load

CELL = Cell(4, 64, 32)


def _again(records: Records) -> Records:
    return unpack(Records, json.loads(json.dumps(pack(records))))


def test_the_records_of_a_real_run_come_back_equal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNGATE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("UNGATE_CACHE_DIR", str(tmp_path / "cache"))
    install(tmp_path / "site")
    request = Request(
        load("lab-allreduce-fusion"),
        resolve(tmp_path / "site", None),
        Target(120),
        new_folder("t"),
        until="build",
        variables={"LAB_CUDA_ARCH_LIST": "12.0", "LAB_KERNELS_CACHE": str(tmp_path / "kernels")},
    )
    records = run(request).records
    assert records.scan is not None and records.series is not None and records.overlay is not None
    assert _again(records) == records
    assert unpack(Request, json.loads(json.dumps(pack(request)))) == request


def test_what_a_server_gave_comes_back_equal() -> None:
    records = Records(
        arms=(Arm("candidate", {"A": ""}, ("--x",), "d"),),
        starts=(StartRecord("candidate", 1, None, "it died", 3.5, None, 0, 2, (EarlyEnd(CELL, "hung", 48.2, "why"),)),),
        samples=(Sample("candidate", 1, CELL, "m", None, "s", "n"), Sample("baseline", 0, CELL, "m", 1.5, "s")),
        telemetry=({"arm": "baseline", "start": 0, "value": 2.0},),
        windows={("candidate", 1, CELL): Window("c", 1.0, None, 2.0, None, None, (("0/power", None),))},
        diagnoses={("candidate", CELL): "Spinning."},
        verdicts=(Verdict(CELL, Decision.REVERT, "r", 0.1, None, float("inf"), arm="newer"),),
        phases={"decode": (Verdict(CELL, Decision.KEEP, "r"),)},
        policy=Policy("f", "sm_120", (PolicyRow(CELL, Decision.KEEP),), Place(4, None, ("g",)), {"p": "1"}),
        ablations=(Ablation("a", CELL, None, "cause", "said"),),
        page=Path("report.html"),
    )
    assert _again(records) == records
    assert revised(Records(), {"stopped": pack("s"), "samples": pack(records.samples)}) == replace(
        Records(), stopped="s", samples=records.samples
    )


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Cell, {"concurrency": "4", "prompt_tokens": 1, "output_tokens": 1}),
        (Cell, {"concurrency": 4}),
        (Cell, {"concurrency": 4, "prompt_tokens": 1, "output_tokens": 1, "command": "rm"}),
        (Verdict, {"cell": None, "decision": "perhaps", "reason": ""}),
        (bytes, "!"),
    ],
)
def test_what_does_not_fit_its_type_is_an_error(kind: type[object], value: object) -> None:
    with pytest.raises((TypeError, ValueError, LookupError, AttributeError)):
        unpack(kind, value)


def test_an_object_without_a_form_is_an_error() -> None:
    with pytest.raises(TypeError, match="no form"):
        pack(object())
