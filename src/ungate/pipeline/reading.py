"""The stages that read: the host, the gates, the chain from flag to kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ungate.host import packages as installed
from ungate.host.progress import Report, silent
from ungate.model import Chain, Gate, Recipe, ScanResult, Series, Status, Target
from ungate.pipeline.records import Context, Records, Request

if TYPE_CHECKING:
    from ungate.trace import Trace

__all__ = ["answered", "doctor", "follow", "prepare", "scan", "to_open", "trace"]

Answer = TypeVar("Answer")


def doctor(request: Request, records: Records, context: Context) -> Records:
    """Read the facts of this host, unless the facts of another were given."""
    if request.facts is not None:
        return replace(records, facts=request.facts)
    from ungate.host.facts import collect

    context.report("reading the facts of this host")
    return replace(records, facts=collect(request.environment))


def scan(request: Request, records: Records, context: Context) -> Records:
    """Find the gates of the files that the recipe's way leads through, which the way itself tells."""
    packages = tuple(installed.find(request.environment, name) for name in request.recipe.packages)
    if not request.recipe.entries or request.same:
        return replace(records, packages=packages)  # the arms differ by switches alone, or not at all
    found, chain = follow(request.recipe, packages, request.target, context.report)
    return replace(records, packages=packages, scan=found, chain=chain)


def trace(request: Request, records: Records, context: Context) -> Records:
    """Put the gates in order, from the server's flag to the kernel: the scan had to follow the way already."""
    return records


def follow(
    recipe: Recipe, packages: tuple[installed.Package, ...], target: Target, report: Report = silent
) -> tuple[ScanResult, Chain]:
    """The way of a recipe and the gates of the files on it.

    Looking for gates is three quarters of a scan, and a way leads through some twenty of several thousand files. So
    the way is followed without gates first, then with those of the files that it asked about.
    """
    import ungate.trace

    report("following the calls from the flag to the kernel")
    way = ungate.trace.Trace(packages, None, target)
    found, chain = _with_gates(way, packages, lambda: way.chain(recipe), report)
    return found, chain


def answered(
    question: str,
    packages: tuple[installed.Package, ...],
    target: Target,
    roots: Sequence[Path],
    report: Report = silent,
) -> tuple[Chain, ...]:
    """The chains that answer a question in the user's words, the gates of the files on them attached. ``roots`` are
    the folders whose binaries are looked into for an error of the CUDA runtime. Refusal where nothing answers."""
    import ungate.trace

    report("reading the packages")
    way = ungate.trace.Trace(packages, None, target)
    report("following the calls")
    return _with_gates(way, packages, lambda: ungate.trace.ask(way, question, roots), report)[1]


def _with_gates(
    way: Trace, packages: tuple[installed.Package, ...], ask: Callable[[], Answer], report: Report
) -> tuple[ScanResult, Answer]:
    """The answer once it has the gates of every file that it asked about. Gates may lead it to further files."""
    import ungate.scan
    from ungate.trace.pause import uncollected

    with uncollected():  # reading the list of files beside the trees of hundreds of them would collect again and again
        answer = ask()
        files: frozenset[str] = frozenset()
        while True:
            files |= way.asked
            found = ungate.scan.scan(packages, report=report, files=files)
            way.attach(found)
            report("following the calls with their gates")
            answer = ask()
            if way.asked <= files:
                return found, answer


def to_open(chain: Chain) -> tuple[Gate, ...]:
    """The gates of a chain that hold the target back, each once, co-compiled units included.

    A co-compiled unit is opened too although the engine does not call it: a module is built as a whole, and
    what is left closed in it would be compiled to kernels without a body.
    """
    # What lets no architecture through is closed by the toolkit's version or for good, not by the architecture;
    # and a flag stays as it is defined: the expression that reads it is what decides. A choice of numbers turns nothing
    # away, and the other architectures' numbers may not fit the target.
    gates = {
        gate.id: gate
        for gate in chain.gates
        if gate.status(chain.target) is Status.CLOSED and gate.passes.yes and gate.role not in ("define", "choice")
    }
    return tuple(gates.values())


def prepare(
    recipe: Recipe, packages: tuple[installed.Package, ...], target: Target, report: Report = silent
) -> tuple[ScanResult, Chain, Series]:
    """Scan, trace and open on paper: what ``patch diff`` and ``patch push`` need, without touching a file."""
    import ungate.patch

    found, chain = follow(recipe, packages, target, report)
    return found, chain, ungate.patch.open_series(recipe.name, to_open(chain), target, packages)
