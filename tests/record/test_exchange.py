from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from ungate.errors import Refusal
from ungate.model import Cell, Decision, Sample, Task, Verdict
from ungate.record import Ledger, Step
from ungate.record.exchange import export, take_in

CELL = Cell(4, 64, 32)


def _filled(place: Path | str, folder: Path) -> Ledger:
    ledger = Ledger(place)
    for name in ("first", "second"):
        run = ledger.begin(name, "sm_120", folder, (), {"driver": "580", "gpus": [name]}, machine="m")
        ledger.plan(run, [Step("judge", 2000, Task("Judge")), Step("scan", 1000, Task("Scan"))])
        ledger.samples(run, [Sample("baseline", 0, CELL, "m", 1.5, "u"), Sample("candidate", 1, CELL, "m", None, "u")])
        ledger.verdicts(run, [Verdict(CELL, Decision.REVERT, "slower", 0.02, 0.01, 0.04, 0.95, 3, "spinning")])
        ledger.end(run, "completed", reopen="another driver")
    return ledger


def test_runs_arrive_as_they_were_and_only_once(place: str, tmp_path: Path) -> None:
    source, goal = _filled(tmp_path / "there.sqlite", tmp_path), Ledger(place)
    document = json.loads(json.dumps(export(source)))
    assert take_in(goal, document, "it") == (2, 0)
    assert take_in(goal, document, "it") == (0, 2)
    for there, here in zip(source.runs(), goal.runs(), strict=True):
        assert (here.recipe, here.fingerprint, here.reopen, here.origin, here.machine) == (
            there.recipe,
            there.fingerprint,
            there.reopen,
            there.origin,
            "m",
        )
        assert here.verdicts == there.verdicts and here.tasks == there.tasks and here.steps == there.steps
        assert goal.samples_of(here.id) == source.samples_of(there.id)
        assert here.folder == ""
    assert take_in(source, export(goal), "back") == (0, 2)


def test_one_run_alone_and_none_that_still_runs(tmp_path: Path) -> None:
    ledger = _filled(tmp_path / "a.sqlite", tmp_path)
    living = ledger.begin("third", "sm_120", tmp_path, (), {})
    runs = export(ledger)["runs"]
    assert isinstance(runs, list) and [run["recipe"] for run in runs] == ["first", "second"]
    with pytest.raises(Refusal, match="has not ended"):
        export(ledger, [living])


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("format",), 2, "format"),
        (("runs", 0, "verdicts", 0, "decision"), "perhaps", "decision"),
        (("runs", 0, "samples", 0, "cell"), "c0-i1-o1", "cell"),
        (("runs", 0, "samples", 0, "value"), float("nan"), "value"),
        (("runs", 0, "origin"), "x", "origin"),
        (("runs", 0, "command"), "rm", "command"),
    ],
)
def test_anything_else_is_refused_and_nothing_of_it_is_kept(
    tmp_path: Path, path: tuple[str | int, ...], value: object, said: str
) -> None:
    document = json.loads(json.dumps(export(_filled(tmp_path / "a.sqlite", tmp_path))))
    inside = document
    for part in path[:-1]:
        inside = inside[part]
    inside[path[-1]] = value
    goal = Ledger(tmp_path / "b.sqlite")
    with pytest.raises(Refusal, match=said):
        take_in(goal, document, "it")
    assert goal.runs() == ()


@pytest.mark.parametrize("content", [[], "text", 3, None])
def test_what_is_no_document_is_told_in_plain_words(tmp_path: Path, content: object) -> None:
    with pytest.raises(Refusal, match="it is no JSON object") as refused:
        take_in(Ledger(tmp_path / "b.sqlite"), cast("Any", content), "it")
    assert "_Document" not in str(refused.value)
