"""Small packages written into a folder, and the lab as an installed pair of distributions."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from ungate.host.packages import Package, below
from ungate.lab.install import install
from ungate.model import KNOWN_ARCHS, ArchSet, Finding, Gate, ScanResult, Target
from ungate.scan import scan
from ungate.trace.chain import Trace
from ungate.trace.lint import lint

Make = Callable[[Mapping[str, str]], tuple[Package, ...]]
Lint = Callable[..., list[str]]
TARGET = Target(120)


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Write files (their first folder is the package) and give one package a top-level folder."""

    def written(files: Mapping[str, str]) -> tuple[Package, ...]:
        for file, text in files.items():
            path = tmp_path / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text))
        tops = dict.fromkeys(file.partition("/")[0] for file in files)
        return tuple(Package(top, "1.0", tmp_path, (top,)) for top in tops)

    return written


@pytest.fixture
def trace(make: Make) -> Callable[..., Trace]:
    """A trace over written files, with the given gates."""

    def of(files: Mapping[str, str], *gates: Gate) -> Trace:
        return Trace(make(files), ScanResult(gates), TARGET)

    return of


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> tuple[Package, ...]:
    """The lab's two distributions, the library first."""
    site = tmp_path_factory.mktemp("lab") / "site"
    install(site)
    return tuple(sorted(below(site), key=lambda package: package.name != "lab-kernels"))


def gate(
    file: str, line: int, passes: set[int], *, last: int = 0, role: str = "use", names: tuple[str, ...] = ()
) -> Gate:
    """A gate as the scanner reports it."""
    package = file.partition("/")[0]
    archs = ArchSet(frozenset(passes & set(KNOWN_ARCHS)))
    condition = " or ".join(names) or "a test"
    return Gate(
        f"{file}:{line}", "p", package, "1.0", file, line, last or line, "test", condition, archs, role, names=names
    )


@pytest.fixture
def found(make: Make) -> Callable[..., tuple[Finding, ...]]:
    """The findings of lint in written files; the scanner itself finds the gates."""

    def of(files: Mapping[str, str], arch: int = 120) -> tuple[Finding, ...]:
        packages = make(files)
        result = scan(packages, jobs=1, use_cache=False)
        return lint(Trace(packages, result, Target(arch)), (arch,))[0]

    return of


@pytest.fixture
def rules(found: Callable[..., tuple[Finding, ...]]) -> Lint:
    return lambda files, arch=120: [finding.rule for finding in found(files, arch)]
