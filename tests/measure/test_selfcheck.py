from __future__ import annotations

import json
import sys

import pytest

from ungate.cli.main import main
from ungate.errors import Refusal
from ungate.measure import selfcheck as stage
from ungate.measure.fake import FAULTS


def test_every_fault_is_noticed(fake: str) -> None:
    # A starved machine may add faults of its own to a run, so one that is missed is tried again: a judge that cannot
    # see it misses it every time.
    missed = [fault for fault in FAULTS if not any(stage._fault(fake, fault, every=3).passed for _ in range(3))]
    assert missed == []
    assert stage._fault(fake, "http-500", every=1).passed


def test_a_client_that_trusts_the_status_line_would_be_found_out(fake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check can fail: with a judge that only asks for [DONE], as common clients do, faults go unnoticed."""
    from ungate.measure import stream

    monkeypatch.setattr(stream, "_fault", lambda reader, request: "" if reader.done else "no [DONE]")
    tried = ["early-end", "error-event", "wrong-usage", "finish-stop", "http-500", "cached"]
    missed = [fault for fault in tried if not stage._fault(fake, fault, every=3).passed]
    assert missed == ["early-end", "error-event", "wrong-usage", "finish-stop"]


def test_the_command_prints_one_document_and_says_what_it_missed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    good = stage.Check("cut", "connection cut", "10 of 30 failed", "10 of 30: connection lost", True)
    bad = stage.Check("mean TTFT", "within 5%", "50.0 ms", "66.0 ms", False)
    monkeypatch.setattr(stage, "selfcheck", lambda report: stage.Selfcheck((good, bad), 1.0))
    assert main(["selfcheck", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["passed"] is False and document["checks"][1]["seen"] == "66.0 ms"
    assert main(["selfcheck"]) == 1
    out = capsys.readouterr().out
    assert "missed" in out and "1 of 2 checks failed" in out
    monkeypatch.setattr(stage, "selfcheck", lambda report: stage.Selfcheck((good,), 1.0))
    assert main(["selfcheck"]) == 0


def test_a_fake_server_that_does_not_start_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(Refusal, match="did not start"), stage.fake_server():
        pass


@pytest.mark.slow
def test_the_whole_selfcheck_passes_on_this_machine() -> None:
    """Budget 90 s."""
    result = stage.selfcheck()
    assert [check for check in result.checks if not check.passed] == []
