"""The stages that read: the host, the gates, the chain from flag to kernel."""

from __future__ import annotations

from dataclasses import replace

from ungate.host import packages as installed
from ungate.host.progress import Report, silent
from ungate.model import Chain, Gate, Recipe, ScanResult, Series, Status, Target
from ungate.pipeline.records import Context, Records, Request

__all__ = ["doctor", "prepare", "scan", "to_open", "trace"]


def doctor(request: Request, records: Records, context: Context) -> Records:
    """Read the facts of this host, unless the facts of another were given."""
    if request.facts is not None:
        return replace(records, facts=request.facts)
    from ungate.host.facts import collect

    context.report("reading the facts of this host")
    return replace(records, facts=collect(request.environment))


def scan(request: Request, records: Records, context: Context) -> Records:
    """Find every gate of the recipe's packages."""
    import ungate.scan

    packages = tuple(installed.find(request.environment, name) for name in request.recipe.packages)
    if not request.recipe.entries or request.same:
        return replace(records, packages=packages)  # the arms differ by switches alone, or not at all
    return replace(records, packages=packages, scan=ungate.scan.scan(packages, report=context.report))


def trace(request: Request, records: Records, context: Context) -> Records:
    """Put the gates in order, from the server's flag to the kernel."""
    import ungate.trace

    if records.scan is None:
        return records
    context.report("following the calls from the flag to the kernel")
    chain = ungate.trace.chain(request.recipe, records.packages, records.scan, request.target)
    return replace(records, chain=chain)


def to_open(chain: Chain) -> tuple[Gate, ...]:
    """The gates of a chain that hold the target back, each once, co-compiled units included.

    A co-compiled unit is opened too although the engine does not call it: a module is built as a whole, and
    what is left closed in it would be compiled to kernels without a body.
    """
    # What lets no architecture through is closed by the toolkit's version or for good, not by the architecture;
    # and a flag stays as it is defined: the expression that reads it is what decides.
    gates = {
        gate.id: gate
        for gate in chain.gates
        if gate.status(chain.target) is Status.CLOSED and gate.passes.yes and gate.role != "define"
    }
    return tuple(gates.values())


def prepare(
    recipe: Recipe, packages: tuple[installed.Package, ...], target: Target, report: Report = silent
) -> tuple[ScanResult, Chain, Series]:
    """Scan, trace and open on paper: what ``patch diff`` and ``patch push`` need, without touching a file."""
    import ungate.patch
    import ungate.scan
    import ungate.trace

    found = ungate.scan.scan(packages, report=report)
    chain = ungate.trace.chain(recipe, packages, found, target)
    return found, chain, ungate.patch.open_series(recipe.name, to_open(chain), target, packages)
