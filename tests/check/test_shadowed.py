"""Binaries that stand before an edited source."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ungate.check import check
from ungate.host.packages import Package
from ungate.model import ArchSet, Chain, Finding, Form, Gate, Hop, Target

GATE = Gate("a", "p", "d", "1", "flashinfer/k.cuh", 3, 3, "preprocessor", "c", ArchSet.of({90}), form=Form.PREPROCESSOR)
CHAIN = Chain("f", Target(120), (Hop("kernel", "flashinfer/k.cuh", 1, "k", True, (GATE,)),))


def _ask(root: Path, opened: bool = True) -> tuple[Finding, ...]:
    package = Package("flashinfer-python", "1", root, ("flashinfer",))
    found = check(CHAIN, Target(120), (package,), opened=frozenset({"a"} if opened else ()))
    return tuple(finding for finding in found if finding.rule == "shadowed")


def _lay(root: Path, *files: str) -> None:
    for file in ("flashinfer/k.cuh", *files):
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_bytes(b"")


def test_sources_alone(tmp_path: Path) -> None:
    _lay(tmp_path)
    assert _ask(tmp_path) == ()


def test_nothing_edited(tmp_path: Path) -> None:
    _lay(tmp_path, "flashinfer_jit_cache/a.so")
    assert _ask(tmp_path, opened=False) == ()


def test_a_package_of_compiled_modules(tmp_path: Path) -> None:
    _lay(tmp_path, "flashinfer_jit_cache/jit_cache/a/a.so", "flashinfer_jit_cache/jit_cache/b/b.so")
    (finding,) = _ask(tmp_path)
    assert finding.what.startswith("flashinfer_jit_cache holds 2 compiled modules")


def test_shared_objects_in_the_package_itself(tmp_path: Path) -> None:
    _lay(tmp_path, "flashinfer/ops.so")
    (finding,) = _ask(tmp_path)
    assert "ops.so" in finding.what


def test_an_opened_list_of_a_build_is_shadowed_too(tmp_path: Path) -> None:
    """flashinfer#5238: the list of majors was opened, and a prebuilt module without the target was loaded instead."""
    _lay(tmp_path, "flashinfer_jit_cache/jit_cache/moe_utils/moe_utils.so")
    gate = replace(GATE, file="flashinfer/jit/moe_utils.py")
    package = Package("flashinfer-python", "1", tmp_path, ("flashinfer",))
    asked = {
        kind: check(
            Chain("f", Target(120), (Hop(kind, gate.file, 1, "gen", True, (gate,)),)),
            Target(120),
            (package,),
            opened=frozenset({"a"}),
        )
        for kind in ("jit-module", "call")
    }
    told = {kind: [finding.rule for finding in found].count("shadowed") for kind, found in asked.items()}
    assert told == {"jit-module": 1, "call": 0}
