"""Architecture tags on the way to the kernel."""

from __future__ import annotations

from pathlib import Path

from ungate.check import check
from ungate.host.packages import below
from ungate.model import Chain, Finding, Hop, Status, Target
from ungate.scan import scan

SM120 = Target(120, "a")


def _ask(root: Path, **files: str) -> tuple[Finding, ...]:
    folder = root / "kernels"
    folder.mkdir()
    for name, source in files.items():
        (folder / f"{name}.cuh").write_text(source)
    packages = below(folder)
    gates = scan(packages, jobs=1, use_cache=False).gates
    hops = tuple(
        Hop("kernel", file, 1, "k", True, tuple(gate for gate in gates if gate.file == file))
        for file in sorted({gate.file for gate in gates})
    )
    opened = frozenset(gate.id for gate in gates if gate.status(SM120) is Status.CLOSED)
    found = check(Chain("f", SM120, hops), SM120, packages, opened=opened)
    return tuple(finding for finding in found if finding.rule == "tagged")


def test_every_tag_is_another_architectures(tmp_path: Path) -> None:
    source = "using A = cutlass::arch::Sm100;\nusing B = cutlass::arch::Sm100;\n"
    (finding,) = _ask(tmp_path, a=source, b="using A = cutlass::arch::Sm90;\n")
    assert finding.severity == "danger"
    assert "every kernel on this way is written for arch::Sm100, arch::Sm90 (sm_90 sm_100 sm_103)" in finding.what
    assert finding.file == "kernels/a.cuh" and (finding.line, finding.end_line) == (1, 2)


def test_one_that_fits_makes_it_a_note(tmp_path: Path) -> None:
    (finding,) = _ask(tmp_path, a="using A = cutlass::arch::Sm100;\n", b="using A = cutlass::arch::Sm120;\n")
    assert finding.severity == "note" and "1 of 2 files" in finding.what


def test_tags_that_fit_are_nothing(tmp_path: Path) -> None:
    assert _ask(tmp_path, a="using A = cutlass::arch::Sm80;\n", b="using A = cutlass::arch::Sm120;\n") == ()


def test_a_way_without_tags(tmp_path: Path) -> None:
    assert _ask(tmp_path, a="#if __CUDA_ARCH__ >= 900\n#endif\n") == ()
