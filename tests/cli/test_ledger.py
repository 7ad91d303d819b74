"""The ledger's commands: list, export, import, known, hypotheses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ungate.cli.main import main
from ungate.model import Cell, Decision, Verdict
from ungate.record import Ledger

VERDICT = Verdict(Cell(1, 8, 8), Decision.REVERT, "slower", 0.02, 0.01, 0.03, 0.95, 3)


@pytest.fixture(autouse=True)
def _filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNGATE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.delenv("UNGATE_LEDGER", raising=False)
    ledger = Ledger.here()
    run = ledger.begin("lab-allreduce-fusion", "sm_120", tmp_path, (), {})
    ledger.verdicts(run, [VERDICT])
    ledger.end(run, "completed", fingerprint={"packages": {"lab-kernels": "0.3.0"}}, reopen="another driver")


def _json(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert main(list(arguments)) == 0
    return json.loads(capsys.readouterr().out)


def test_runs_travel_by_a_file_to_another_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ledger", "export", "--output", str(tmp_path / "runs.json")]) == 0
    monkeypatch.setenv("UNGATE_LEDGER", str(tmp_path / "other.sqlite"))
    assert _json(capsys, "ledger", "import", str(tmp_path / "runs.json"), "--json") == {"added": 1, "had": 0}
    assert _json(capsys, "ledger", "import", str(tmp_path / "runs.json"), "--json") == {"added": 0, "had": 1}
    (row,) = _json(capsys, "ledger", "--json")
    assert row["verdicts"][0]["decision"] == "revert" and row["folder"] == ""
    assert _json(capsys, "ledger", "--recipe", "other", "--json") == []


def test_an_imported_run_has_no_page_and_cannot_be_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ledger", "export", "--output", str(tmp_path / "runs.json")]) == 0
    monkeypatch.setenv("UNGATE_LEDGER", str(tmp_path / "other.sqlite"))
    assert main(["ledger", "import", str(tmp_path / "runs.json")]) == 0
    assert main(["report"]) == 3
    assert main(["run", "--resume"]) == 3
    assert "Traceback" not in capsys.readouterr().err


def test_runs_of_other_machines_in_a_shared_ledger_are_left_to_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run.json").write_text(json.dumps({"recipe": {"name": "lab", "summary": "s"}, "target": "sm_120"}))
    Ledger.here().begin("lab-allreduce-fusion", "sm_120", Path("/elsewhere/run"), (), {})
    assert _json(capsys, "report", "--json")["run"] == 1
    assert main(["run", "--resume"]) == 3
    assert "none to resume" in capsys.readouterr().err
    assert main(["run", "--resume", "2"]) == 3
    assert "cannot be read" in capsys.readouterr().err


def test_what_is_known_comes_from_own_runs_and_public_results(capsys: pytest.CaptureFixture[str]) -> None:
    told = _json(capsys, "known", "lab-allreduce-fusion", "--target", "sm_120", "--json")
    assert [each["run"] for each in told["own"]] == [1]
    assert told["own"][0]["reopens"] == "another driver" and told["own"][0]["verdicts"][0]["ratio"] == 0.02
    public = _json(capsys, "known", "flashinfer-allreduce-fusion", "--target", "sm_120", "--json")["public"]
    assert {"flashinfer-ai/flashinfer#3903", "sgl-project/sglang#32330"} <= {
        each["result"]["reference"] for each in public
    }
    assert all(each["result"]["reopens"] for each in public)


def test_a_hypothesis_waits_for_the_next_run(capsys: pytest.CaptureFixture[str]) -> None:
    from ungate.cli._campaign import waiting

    assert main(["tasks", "add", "Read the paper", "--criterion", "somebody has"]) == 0
    assert main(["run", "--next", "--target", "sm_120", "--", "server"]) == 3
    assert "names no recipe" in capsys.readouterr().err
    low = ["--recipe", "lab-allreduce-fusion", "--cell", "c2-i16-o8", "--min-effect", "0.2"]
    assert main(["tasks", "add", "Try small batches", *low, "--priority", "low"]) == 0
    assert main(["tasks", "add", "Try it", "--recipe", "lab-allreduce-fusion", "--priority", "high"]) == 0
    assert waiting().task.content == "Try it"
    Ledger.here().settle(waiting().id, "completed")
    assert (waiting().cells, waiting().min_effect) == ((Cell(2, 16, 8),), 0.2)
    capsys.readouterr()
    criteria = [task["criterion"] for task in _json(capsys, "tasks", "--hypotheses", "--json")]
    assert "a verdict on lab-allreduce-fusion at c2-i16-o8 for an effect of 20 %" in criteria


@pytest.mark.parametrize(
    "words",
    [
        ["tasks", "add", "x"],
        ["tasks", "add", "x", "--recipe", "nope"],
        ["tasks", "add", "x", "--recipe", "lab-allreduce-fusion", "--cell", "big"],
        ["run", "lab-allreduce-fusion", "--release", "flashinfer-python>=1", "--target", "sm_120", "--", "server"],
        ["run"],
        ["run", "--resume", "seven"],
        ["ledger", "export", "99"],
        ["ledger", "import", "/nowhere.json"],
    ],
)
def test_what_cannot_be_done_is_a_sentence(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 3
    err = capsys.readouterr().err
    assert err.startswith("ungate: ") and "Traceback" not in err


@pytest.mark.parametrize("content", ["", "null", "[" * 50_000, "1" + "0" * 5_000, "\x00"])
def test_what_holds_no_runs_is_a_sentence(content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "runs.json"
    file.write_text(content, encoding="utf-8")
    assert main(["ledger", "import", str(file)]) == 3
    err = capsys.readouterr().err
    assert err.startswith("ungate: ") and "ungate ledger export" in err


def test_an_interrupted_run_says_how_it_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from ungate.lab.install import install

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    install(tmp_path / "site")
    monkeypatch.setattr("ungate.host.packages.find", interrupted)
    words = ["run", "lab-allreduce-fusion", "--site", str(tmp_path / "site"), "--target", "sm_120", "--until", "scan"]
    assert main(words) == 130
    assert "Interrupted" in (said := capsys.readouterr().err) and "ungate run --resume 2" in said
    assert Ledger.here().runs()[0].status == "interrupted"
