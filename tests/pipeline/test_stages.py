"""The pipeline's own decisions: what is opened, what stops a run, what code it ends with."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from ungate.errors import Exit, Refusal
from ungate.host.environment import resolve
from ungate.host.progress import silent
from ungate.lab.install import install
from ungate.model import ArchSet, Arm, Chain, Decision, Gate, Hop, Target, Task, Variant, Verdict
from ungate.pipeline import STAGES, Request, new_folder, run, stages_of, startable
from ungate.pipeline.arms import alike, arms, engine_of
from ungate.pipeline.elsewhere import release
from ungate.pipeline.reading import to_open
from ungate.pipeline.records import Records
from ungate.recipes import load
from ungate.record import Hypothesis, Ledger

SM120 = Target(120)


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNGATE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("UNGATE_CACHE_DIR", str(tmp_path / "cache"))


def _gate(name: str, archs: tuple[int, ...], role: str = "test") -> Gate:
    return Gate(name, "p", "k", "1", "k.py", 1, 1, "kind", "c", ArchSet.of(archs), role=role)


def test_what_holds_the_target_back_is_opened_once_and_a_flag_stays() -> None:
    closed, defined = _gate("a", (90, 100)), _gate("d", (90,), role="define")
    gates = (closed, _gate("b", (90, 120)), _gate("c", ()), defined, _gate("e", (90,), role="choice"))
    chain = Chain(
        "f", SM120, (Hop("call", "k.py", 1, "f", True, gates),), (Hop("kernel", "k.py", 1, "k", True, gates),)
    )
    assert to_open(chain) == (closed,)


def test_the_stages_end_where_they_are_told_and_a_server_needs_a_command() -> None:
    recipe = load("lab-allreduce-fusion")
    assert [stage.name for stage in stages_of(recipe, "patch", ())] == [stage.name for stage in STAGES[:5]]
    with pytest.raises(Refusal, match="server's command line"):
        stages_of(recipe, "launch", ())


def _request(tmp_path: Path, until: str, target: str = "sm_120") -> Request:
    site = tmp_path / "site"
    if not site.exists():
        install(site)
    return Request(
        load("lab-allreduce-fusion"), resolve(site, None), Target.parse(target), new_folder("test"), until=until
    )


def test_an_architecture_that_is_let_in_everywhere_has_nothing_to_open(tmp_path: Path) -> None:
    outcome = run(_request(tmp_path, "patch", target="sm_90"))
    assert outcome.code is Exit.DONE
    assert "nothing to open" in outcome.document["stopped"] and outcome.document["series"] is None


def test_a_server_that_cannot_be_started_is_said_before_anything_is_compiled(tmp_path: Path) -> None:
    request = dataclasses.replace(_request(tmp_path, "report"), command=("/nowhere/python", "-m", "server"))
    with pytest.raises(Refusal, match="/nowhere/python"):
        run(request)
    assert Ledger.here().runs() == ()
    startable(request.recipe, STAGES[:6], ("/nowhere/python",), {})  # nothing of that is started
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/serve").write_text("#!/bin/sh\n")
    (tmp_path / "bin/serve").chmod(0o755)
    startable(request.recipe, STAGES, ("serve",), {"PATH": str(tmp_path / "bin")})
    with pytest.raises(Refusal, match="no engine file for 'nothing'"):
        startable(dataclasses.replace(request.recipe, engine="nothing"), STAGES, ("sh",), {})


def test_the_worst_of_both_questions_comes_first(tmp_path: Path) -> None:
    severities = [finding.severity for finding in run(_request(tmp_path, "check")).records.findings]
    assert severities and severities == sorted(severities, key=["terminal", "danger", "warning", "note"].index)


def test_every_step_of_a_run_is_in_the_ledger_and_in_its_document(tmp_path: Path) -> None:
    outcome = run(_request(tmp_path, "patch"))
    assert outcome.code is Exit.DONE
    assert [task["status"] for task in outcome.document["tasks"]] == ["completed"] * 5
    assert outcome.document["series"]["refused"] == []
    assert {edit["file"] for edit in outcome.document["series"]["edits"]} == {
        "labengine/server_args.py",
        "labengine/communicator.py",
        "labkernels/jit/comm.py",
        "labkernels/data/include/labkernels/comm/allreduce.h",
        "labkernels/data/include/labkernels/comm/allreduce_fusion.h",
    }


def test_a_hypothesis_is_completed_by_its_run_and_waits_again_after_an_interrupt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ungate.pipeline import opening

    ledger = Ledger.here()
    number = ledger.suppose(Hypothesis(0, Task("Open it", criterion="it opens"), "lab-allreduce-fusion"))
    outcome = run(_request(tmp_path, "patch"), hypothesis=number)
    assert ledger.hypotheses()[0].task.status == "pending"  # a run that ends before it judges decides nothing
    outcome = run(_request(tmp_path, "patch", target="sm_90"), hypothesis=number)
    (found,) = ledger.hypotheses()
    assert "nothing to open" in outcome.document["stopped"]
    assert (found.task.status, found.run) == ("completed", outcome.run)
    ledger.settle(number, "pending")

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(opening, "to_open", interrupted)
    with pytest.raises(KeyboardInterrupt, match=f"run --resume {outcome.run + 1}"):
        run(_request(tmp_path, "patch"), hypothesis=number)
    assert ledger.hypotheses()[0].task.status == "pending"


def test_a_recipe_without_gates_opens_nothing_and_goes_on(tmp_path: Path) -> None:
    request = _request(tmp_path, "build")
    outcome = run(dataclasses.replace(request, recipe=dataclasses.replace(request.recipe, entries=(), build="")))
    assert outcome.code is Exit.DONE and outcome.document["series"] is None and not outcome.document["stopped"]
    assert [task["status"] for task in outcome.document["tasks"]] == ["completed"] * 6


def test_arms_differ_by_what_they_say_and_a_swap_exchanges_the_first_two(tmp_path: Path) -> None:
    request = _request(tmp_path, "patch")
    records = run(request).records
    recipe = dataclasses.replace(request.recipe, baseline=Variant("baseline", {"B": "1"}))
    asked = dataclasses.replace(
        request, recipe=recipe, command=("server",), arms=(Variant("louder", {"L": "2"}, ("--loud",)),)
    )
    first, second, third = arms(asked, records, silent)
    assert (first.environment["B"], "B" in second.environment, "B" in third.environment) == ("1", False, False)
    assert (third.name, third.environment["L"], third.arguments) == ("louder", "2", ("--loud",))
    own = Variant("venv", command=("/v/bin/python", "-m", "vllm.entrypoints.openai.api_server"))
    venv = arms(dataclasses.replace(asked, arms=(own,)), records, silent)[2]
    assert venv.command == own.command and not alike(first, venv)
    assert (engine_of(asked, venv).name, engine_of(asked, first).name) == ("vllm", "lab")
    swapped = arms(dataclasses.replace(asked, swap=True), records, silent)
    assert [arm.name for arm in swapped] == ["baseline", "candidate", "louder"]
    assert dict(swapped[0].environment) == dict(second.environment)
    assert dict(swapped[1].environment) == dict(first.environment)
    same = arms(dataclasses.replace(asked, same=True), records, silent)
    assert alike(same[0], same[1]) and not alike(first, second)


def test_keys_in_the_environment_stay_in_the_run_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ungate.pipeline.document import document

    monkeypatch.setenv("SOME_API_KEY", "hush")
    request = dataclasses.replace(_request(tmp_path, "patch"), command=("server",))
    records = dataclasses.replace(Records(), arms=arms(request, Records(), silent))
    assert all(arm.environment["SOME_API_KEY"] == "hush" for arm in records.arms)
    told = document(request, records, (), (), started="", ended="")
    assert "hush" not in str(told["arms"])
    assert request.folder.stat().st_mode & 0o077 == 0


def test_another_release_comes_first_on_the_path_with_caches_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ungate.host import index

    monkeypatch.setattr(index, "fetch", lambda requirement, report: tmp_path / "wheels" / requirement)
    found = release(("flashinfer-python==0.6.17",), {"PYTHONPATH": "/mine"}, silent)
    assert found["PYTHONPATH"].split(":") == [str(tmp_path / "wheels/flashinfer-python==0.6.17"), "/mine"]
    assert found["FLASHINFER_WORKSPACE_BASE"].startswith(str(tmp_path / "cache" / "releases"))


def test_a_flag_that_the_command_already_has_is_refused(tmp_path: Path) -> None:
    request = _request(tmp_path, "patch")
    outcome = run(request)
    given = dataclasses.replace(request, command=("server", "--enable-fused-allreduce"))
    with pytest.raises(Refusal, match="both arms would run"):
        arms(given, outcome.records, silent)
    baseline, candidate = arms(dataclasses.replace(request, command=("server",)), outcome.records, silent)
    assert isinstance(baseline, Arm) and "--enable-fused-allreduce" not in baseline.arguments
    assert candidate.arguments == ("--enable-fused-allreduce",)
    assert candidate.environment["PYTHONPATH"].startswith(str(outcome.records.overlay and outcome.records.overlay.root))


@pytest.mark.parametrize(
    ("decisions", "code"),
    [
        ((Decision.KEEP, Decision.KEEP), Exit.DONE),
        ((Decision.KEEP, Decision.INCONCLUSIVE), Exit.INCONCLUSIVE),
        ((Decision.KEEP, Decision.REVERT, Decision.INCONCLUSIVE), Exit.FINDINGS),
    ],
)
def test_the_exit_code_is_that_of_the_worst_cell(decisions: tuple[Decision, ...], code: Exit) -> None:
    from ungate import pipeline

    cell = load("lab-allreduce-fusion").cells[0]
    verdicts = tuple(Verdict(cell, decision, "r") for decision in decisions)
    assert pipeline._code(Records(verdicts=verdicts)) is code
