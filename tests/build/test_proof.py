from __future__ import annotations

from pathlib import Path

import pytest

from ungate.build import proof
from ungate.build.proof import Family
from ungate.build.sass import Effect, Image, Kernel


def kernel(name: str, effect: Effect, *, registers: int | None = 32, digest: str = "") -> Kernel:
    title = f"void ns::{name.partition('-')[0]}<{name.partition('-')[2] or 0}>(float*)"
    return Kernel(name, title, effect, 16, registers, 1024, 0, 0, digest or f"{name} {effect}")


def image(*kernels: Kernel, arch: str = "sm_120a") -> Image:
    return Image(Path("x.cubin"), arch, kernels, "release 13.0")


CLOSED = image(
    kernel("lamport-1", Effect.HOLLOW),
    kernel("lamport-2", Effect.HOLLOW),
    kernel("twoshot-1", Effect.PRESENT, registers=64),
    kernel("twoshot-2", Effect.PRESENT, registers=None),
    kernel("guard-1", Effect.TRAPS),
    kernel("mixed-1", Effect.HOLLOW),
    kernel("mixed-2", Effect.PRESENT),
)
OPENED = image(*(kernel(one.name, Effect.PRESENT) for one in CLOSED.kernels))


def test_families_count_and_the_worst_comes_first() -> None:
    first, *rest = proof.families(CLOSED, {"twoshot-1": (16, 24), "twoshot-2": (0, 0)})
    assert first == Family("ns::lamport", 2, 2, 0, 0, 32, 1024, 0, 0)
    assert [family.name for family in rest] == ["ns::mixed", "ns::guard", "ns::twoshot"]
    assert (rest[2].registers, rest[2].spills, rest[2].present) == (64, 1, 2)


def test_without_the_compilers_word_spills_are_unknown() -> None:
    assert {family.spills for family in proof.families(CLOSED)} == {None}
    assert proof.families(image(kernel("a", Effect.PRESENT, registers=None)))[0].registers is None


def test_findings_for_hollow_and_trapping_families() -> None:
    lamport, mixed, guard = proof.hollow(CLOSED, "do this")
    assert lamport.what.startswith("all 2 kernels of ns::lamport have no body for sm_120a")
    assert mixed.what.startswith("1 of 2 kernels of ns::mixed")
    assert (lamport.rule, lamport.severity, lamport.advice) == ("hollow-binary", "terminal", "do this")
    assert (guard.rule, guard.severity) == ("trapping-binary", "danger")
    assert proof.hollow(OPENED, "do this") == ()


def test_the_record_counts_only_the_target() -> None:
    record = proof.artifact(Path("x.so"), [CLOSED, image(kernel("a", Effect.HOLLOW), arch="sm_90a")], "sm_120a", 3.0)
    assert (record.kernels, record.hollow, record.seconds) == (7, 3, 3.0)
    assert record.note == "hollow: 2 x lamport, 1 x mixed"


def test_a_binary_for_another_target_is_not_a_binary_without_hollow_kernels() -> None:
    record = proof.artifact(Path("x.so"), [image(arch="sm_90a")], "sm_120a", 0.0)
    assert (record.kernels, record.hollow) == (0, None)
    assert record.note == "it holds no code for sm_120a, only for sm_90a"


def test_a_bare_target_is_met_by_what_packages_build_for_it() -> None:
    assert proof.artifact(Path("x.so"), [CLOSED], "sm_120", 0.0).hollow == 3
    assert proof.artifact(Path("x.so"), [CLOSED], "sm_12", 0.0).hollow is None


def test_the_same_machine_code_after_an_edit_is_a_stale_build() -> None:
    (finding,) = proof.changes(CLOSED, CLOSED)
    assert (finding.rule, finding.severity) == ("identical-binary", "terminal")
    assert "ungate cache ls" in finding.advice


def test_bodies_gained_and_lost_are_told_apart() -> None:
    (gained,) = proof.changes(CLOSED, OPENED)
    assert gained.rule == "gained-body"
    assert gained.what.startswith("3 hollow kernels have a body now, such as ns::lamport")
    rules = {finding.rule: finding.what for finding in proof.changes(OPENED, CLOSED)}
    assert rules.keys() == {"lost-body"}
    assert rules["lost-body"].startswith("4 kernels had a body before the edit and not after it")


def test_an_empty_image_is_not_a_stale_build() -> None:
    assert proof.changes(image(), image()) == ()


def test_a_prebuilt_library_is_named_with_what_it_holds() -> None:
    finding = proof.shadowed(
        Path("/x/comm.so"), ("sm_90a", "sm_100a"), "sm_120a", "flashinfer-python", "flashinfer-jit-cache"
    )
    assert (finding.rule, finding.severity) == ("prebuilt-library", "danger")
    assert finding.evidence == "/x/comm.so: it holds code for sm_90a sm_100a, not for sm_120a"
    assert proof.shadowed(Path("/x"), ("sm_120a",), "sm_120a", "p", "").evidence == "/x: it holds code for sm_120a"
    assert proof.shadowed(Path("/x"), None, "sm_120a", "p", "").evidence.endswith("is not known")


def test_what_is_empty_everywhere_is_empty_by_design() -> None:
    reference = image(kernel("lamport-1", Effect.PRESENT), kernel("lamport-2", Effect.HOLLOW), arch="sm_90a")
    assert [one.name for one in proof.emptied(CLOSED, reference)] == ["lamport-1"]
    note, lamport, guard = proof.hollow(CLOSED, "do this", reference)
    assert (note.rule, note.severity) == ("empty-by-design", "note")
    assert note.what.startswith("2 kernels have no body for sm_90a either")
    assert lamport.what.startswith("ns::lamport has no body")
    assert guard.rule == "trapping-binary"


@pytest.mark.parametrize(
    ("owner", "told"),
    [
        pytest.param("kernels-jit-cache", "pip uninstall kernels-jit-cache", id="beside-it"),
        pytest.param("kernels", "build kernels from its sources", id="its-own"),
        pytest.param("", "See whose it is", id="not-known"),
    ],
)
def test_whoever_brought_a_prebuilt_library_is_named(owner: str, told: str) -> None:
    finding = proof.shadowed(Path("/x/comm.so"), (), "sm_120a", "kernels", owner)
    assert told in finding.advice and "flashinfer" not in finding.advice
