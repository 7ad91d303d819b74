"""Peer access: known, denied, and not known."""

from __future__ import annotations

from ungate.check import check
from ungate.host.facts import HostFacts
from ungate.host.gpus import Gpu, Link
from ungate.model import ArchSet, Chain, Finding, Gate, Hop, Target

SM120 = Target(120)
CHAIN = Chain("f", SM120, (Hop("call", "a.py", 3, "f", True),))
GPUS = (Gpu(0), Gpu(1))


def _ask(facts: HostFacts | None, *, needs: bool = True) -> tuple[Finding, ...]:
    instead = "a host-staged fused allreduce"
    return check(CHAIN, SM120, (), facts=facts, needs_peer_access=needs, instead=instead)


def _facts(link: Link) -> HostFacts:
    return HostFacts(gpus=GPUS, links=(link,))


def test_a_feature_that_maps_no_peer_memory_is_not_asked() -> None:
    assert _ask(_facts(Link(0, 1, read=False, write=False)), needs=False) == ()


def test_peer_access_is_no_finding() -> None:
    assert _ask(_facts(Link(0, 1, read=True, write=True))) == ()


def test_no_peer_access_is_terminal_and_names_what_helps() -> None:
    (finding,) = _ask(_facts(Link(0, 1, read=False, write=False, reason="chipset not supported")))
    assert finding.severity == "terminal"
    assert "chipset not supported" in finding.what and "host-staged" in finding.advice


def test_one_direction_that_is_denied_is_enough() -> None:
    (finding,) = _ask(_facts(Link(0, 1, read=True, write=False)))
    assert finding.severity == "terminal"


def test_an_unknown_reading_is_a_warning_not_a_verdict() -> None:
    (finding,) = _ask(_facts(Link(0, 1)))
    assert finding.severity == "warning"


def test_no_facts_are_said_so() -> None:
    (finding,) = _ask(None)
    assert finding.severity == "note" and "--facts" in finding.advice


def test_a_blocked_step_is_terminal() -> None:
    chain = Chain("f", SM120, (Hop("jit-module", "a.py", 3, "gen", True, blocker="prebuilt binary for sm_100a"),))
    (finding,) = check(chain, SM120, ())
    assert finding.severity == "terminal" and "prebuilt binary" in finding.what


def test_a_step_whose_own_list_has_the_target_is_a_note() -> None:
    gate = Gate("g", "p", "d", "1", "a.py", 4, 4, "python-version-list", "[8, 12]", ArchSet.of({80, 120, 121}))
    chain = Chain("f", SM120, (Hop("jit-module", "a.py", 3, "gen", True, (gate,), blocker="downloaded binaries"),))
    (finding,) = check(chain, SM120, ())
    assert finding.severity == "note" and "headers alone" in finding.advice
