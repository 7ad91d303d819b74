"""Run the package's own build in an overlay, and read what it built.

It is the package's own build, so that what is checked is what the server will load; it runs in a supervised
child with a deadline.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from ungate.build import linking, proof, sass
from ungate.build.elf import host_kernels
from ungate.errors import Refusal, shell
from ungate.host import children
from ungate.host.packages import Package
from ungate.host.progress import Report, silent
from ungate.model import Artifact, Target

__all__ = ["compile_recipe"]

_DEADLINE_S = 1800.0

_SPECIFICATION = """
import importlib, json, sys
module, name, given = sys.argv[1:]
values = json.loads(given)
for key, value in values.items():
    if isinstance(value, str) and value.startswith("torch."):
        values[key] = getattr(importlib.import_module("torch"), value.removeprefix("torch."))
made = getattr(importlib.import_module(module), name)(**values)
if hasattr(made, "build"):
    made.build(verbose=True)
"""


def compile_recipe(
    build: str,
    *,
    packages: Sequence[Package],
    environment: Mapping[str, str],
    built_in: Path,
    arguments: Mapping[str, str | int | bool] | None = None,
    target: Target,
    python: Path | None,
    log: Path,
    prefix: str = "",
    deadline_s: float = _DEADLINE_S,
    report: Report = silent,
) -> tuple[Artifact, ...]:
    """Build what ``build`` names and return the shared libraries that then lie below ``built_in``.

    ``build`` is ``package.module`` or ``package.module:name`` (see :class:`ungate.model.Recipe`) and must lie in one of
    ``packages``: a recipe names code of the packages it opens and brings none of its own. ``arguments`` are what the
    function is called with. ``environment`` is the
    whole environment of the child, ``python`` the serving environment's interpreter (None: ungate's own).
    ``prefix`` is what the names of host kernels begin with; empty for CUDA kernels, which are read from machine code.
    Refusal when the build fails or runs into the deadline.
    """
    if build.partition(".")[0] not in {top for package in packages for top in package.tops}:
        raise Refusal(
            f"The recipe's build {build} is not part of {', '.join(package.name for package in packages)}.",
            "Correct the recipe's 'build', or stop before: --until patch",
        )
    module, _, name = build.partition(":")
    words = ["-c", _SPECIFICATION, module, name, json.dumps(dict(arguments or {}))] if name else ["-m", module]
    report(f"building with {build}")
    whole = dict(environment) if prefix else {**environment, **linking.variables(environment, log.parent)}
    outcome = children.run([python or sys.executable, *words], deadline_s=deadline_s, log=log, env=whole)
    if outcome.timed_out:
        raise Refusal(
            f"The build did not end within {deadline_s / 60:.0f} minutes.", f"Read its log: less {shell(log)}"
        )
    if outcome.code != 0:
        raise Refusal(
            f"The build failed with exit code {outcome.code}: {_cause(outcome.output)}",
            f"Read its log: less {shell(log)}",
        )
    libraries = sorted(path for path in built_in.rglob("*.so") if path.is_file())
    if not libraries:
        raise Refusal(f"The build left no shared library below {built_in}.", f"Read its log: less {shell(log)}")
    return tuple(_artifact(library, target, prefix, outcome.seconds) for library in libraries)


def _cause(output: str) -> str:
    """The first line that a compiler or Python calls an error, else the last line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    named = next((line for line in lines if "error:" in line.lower() or "Error: " in line), None)
    return named or (lines[-1] if lines else "it printed nothing") or ""


def _artifact(library: Path, target: Target, prefix: str, seconds: float) -> Artifact:
    if not prefix:
        try:
            return proof.artifact(library, sass.read(library), str(target), seconds)
        except (
            Refusal
        ) as refusal:  # no cuobjdump, or a library without GPU code: then nothing is known, and that is said
            return Artifact(library, str(target), None, None, seconds, f"kernels were not read: {refusal.what}")
    kernels = host_kernels(library, prefix)
    unknown = any(kernel.hollow is None for kernel in kernels)
    hollow = [kernel.name for kernel in kernels if kernel.hollow]
    note = "hollow: " + ", ".join(hollow) if hollow else ""
    return Artifact(library, str(target), len(kernels), None if unknown else len(hollow), seconds, note)
