"""Public results as findings."""

from __future__ import annotations

from ungate.check import check
from ungate.model import Chain, Finding, Hop, KnownMatch, KnownResult, Target

SM120 = Target(120)
CHAIN = Chain("f", SM120, (Hop("call", "a.py", 3, "f", True),))


def _ask(outcome: str, *unknown: str, partial: bool = False) -> Finding:
    result = KnownResult(
        reference="o/r#7",
        date="2026-07-09",
        outcome=outcome,
        features=("f",),
        packages={},
        archs=(120,),
        topologies=(),
        ranks=(2, 4),
        hardware="a card",
        what="it does so",
        reopens="a release",
        partial=partial,
    )
    (finding,) = check(CHAIN, SM120, (), known=[KnownMatch(result, unknown)])
    return finding


def test_nothing_known() -> None:
    assert check(CHAIN, SM120, ()) == ()


def test_harm_on_the_same_kind_of_machine_is_a_warning() -> None:
    finding = _ask("wrong")
    assert finding.severity == "warning" and finding.confidence == "medium"
    assert finding.what == "it gave wrong results for others (o/r#7, 2026-07-09; a card): it does so"
    assert finding.advice == "What reopens it: a release."
    assert finding.evidence == "https://github.com/o/r/issues/7; seen with 2 and 4 ranks"


def test_a_version_that_the_report_does_not_bound_lowers_the_confidence_alone() -> None:
    finding = _ask("slower", "version of vllm")
    assert finding.severity == "warning" and finding.confidence == "low"
    assert "not compared: version of vllm" in finding.evidence


def test_another_topology_perhaps_is_a_note() -> None:
    assert _ask("hang", "topology").severity == "note"


def test_gains_and_refusals_are_notes() -> None:
    assert [_ask(outcome).severity for outcome in ("faster", "refused", "mixed")] == ["note"] * 3


def test_a_report_read_in_part_says_so() -> None:
    assert "only a part of the report was read" in _ask("crash", partial=True).evidence
