"""Compile the translation units of a module to machine code for one target, which this machine need not have.

Only the device code is compiled (``nvcc -cubin``): that needs a toolkit, and neither a GPU, nor a driver, nor PyTorch.
What is compiled with and from which files is kept beside the result by content, so that a second call compiles only
what has changed.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from ungate.build.unit import Module
from ungate.errors import Refusal, shell
from ungate.host import children, files, toolchain
from ungate.host.progress import Report, silent
from ungate.model import Target

__all__ = ["Compiled", "Complaint", "compile_module", "effective_target"]

_DEADLINE_S = 3600.0
_COMPLAINTS = (
    re.compile(
        r"^(?P<file>[^\s(][^(\n]*)\((?P<line>\d+)\): (?:catastrophic )?error(?: #\S+)?: (?P<text>.+)$"
    ),  # cudafe++
    re.compile(
        r"^(?P<file>[^\s:][^:\n]*):(?P<line>\d+):\d+: (?:fatal )?error: (?P<text>.+)$"
    ),  # the host's preprocessor
    re.compile(r"^ptxas (?P<file>\S+), line (?P<line>\d+); error\s*: (?P<text>.+)$"),
    re.compile(r"^(?:nvcc|ptxas|nvlink) (?:fatal|error)\s*: (?P<text>.+)$"),
)
_SPILLS = re.compile(
    r"Function properties for (\S+)\n\s+\d+ bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads"
)


@dataclass(frozen=True, slots=True)
class Complaint:
    """An error of the compiler. ``file`` is empty where it names none; ptxas names PTX that is gone by now."""

    file: str
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Compiled:
    """One unit. ``cubin`` is None where it did not compile; ``fresh`` is True where an earlier result still holds.

    ``spills`` maps a kernel to the bytes it stores to and loads from local memory for want of registers.
    """

    source: Path
    target: str
    cubin: Path | None
    seconds: float
    fresh: bool
    log: Path
    complaints: tuple[Complaint, ...] = ()
    spills: Mapping[str, tuple[int, int]] = field(default_factory=dict)


def effective_target(module: Module, target: Target) -> Target:
    """The target as the package would name it: a bare one gets the suffix that the package appends."""
    return target if target.suffix else replace(target, suffix=module.suffix)


def compile_module(
    module: Module,
    target: Target,
    folder: Path,
    *,
    only: Sequence[str] = (),
    deadline_s: float = _DEADLINE_S,
    jobs: int = 1,
    report: Report = silent,
) -> tuple[Compiled, ...]:
    """Compile every source of ``module`` (or those whose file name is in ``only``) into ``folder``.

    ``deadline_s`` is for one unit. A unit that does not compile is no Refusal but a result with complaints; Refusal
    for a missing toolkit, a target nvcc does not know, an unknown name in ``only``, and a deadline.
    """
    sources = (*module.sources, *(folder / "generated" / module.name / unit.name for unit in module.generated))
    if unknown := set(only) - {source.name for source in sources}:
        names = ", ".join(source.name for source in sources)
        raise Refusal(f"{module.name} has no source {', '.join(sorted(unknown))}.", f"Its sources are: {names}")
    goal = effective_target(module, target)
    codes = toolchain.codes()
    if codes is not None and f"sm_{goal.number}" not in codes:
        raise Refusal(
            f"{toolchain.need('nvcc')} cannot compile for {goal} (it knows {' '.join(codes)}).",
            "Get a newer one: pip install -U 'ungate[toolchain]'",
        )
    chosen = [source for source in sources if not only or source.name in only]
    folder.mkdir(parents=True, exist_ok=True)
    for unit in module.generated:
        (folder / "generated" / module.name).mkdir(parents=True, exist_ok=True)
        files.write(folder / "generated" / module.name / unit.name, unit.text.encode())
    done = 0
    report(f"compiling {module.name} for {goal}", done, len(chosen))

    def one(source: Path) -> Compiled:
        nonlocal done
        result = _unit(module, source, goal, folder, deadline_s)
        done += 1
        report(f"compiled {source.name} for {goal}", done, len(chosen))
        return result

    if jobs == 1:
        return tuple(map(one, chosen))
    with ThreadPoolExecutor(jobs) as pool:
        return tuple(pool.map(one, chosen))


def _command(module: Module, source: Path, target: Target, output: Path, dependencies: Path) -> list[str | Path]:
    where = [word for folder in module.includes for word in ("-isystem", folder)]
    what: list[str | Path] = ["-cubin", f"-arch={target}", "-Xptxas", "-v", "-MD", "-MF", dependencies]
    return [toolchain.need("nvcc"), *what, *module.flags, *where, source, "-o", output]


def _unit(module: Module, source: Path, target: Target, folder: Path, deadline_s: float) -> Compiled:
    stem = folder / f"{module.name}.{source.stem}.{target}"
    cubin, note, log = (stem.with_name(f"{stem.name}.{kind}") for kind in ("cubin", "json", "log"))
    draft, dependencies = (stem.with_name(f"{stem.name}.{kind}") for kind in ("cubin.part", "d"))
    command = _command(module, source, target, draft, dependencies)
    nvcc = toolchain.tool("nvcc")
    identity = hashlib.sha256(f"{nvcc.version if nvcc else ''}\0{shlex.join(map(str, command))}".encode()).hexdigest()
    if cubin.exists() and _holds(note, identity):
        said = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
        return Compiled(source, str(target), cubin, 0.0, True, log, spills=_spills(said))
    note.unlink(missing_ok=True)
    outcome = children.run(command, deadline_s=deadline_s, log=log)
    if outcome.timed_out:
        draft.unlink(missing_ok=True)
        raise Refusal(
            f"{source.name} did not compile within {deadline_s:.0f} s for {target}.",
            f"Read how far it came: less {shell(log)}",
        )
    said = log.read_text(encoding="utf-8", errors="replace")
    if outcome.code != 0 or not draft.exists():
        draft.unlink(missing_ok=True)
        cubin.unlink(missing_ok=True)
        complaints = tuple(_complaints(said)) or (Complaint("", 0, f"nvcc ended with code {outcome.code}"),)
        return Compiled(source, str(target), None, outcome.seconds, False, log, complaints)
    draft.replace(cubin)
    inputs = {str(path): _digest(path) for path in _dependencies(dependencies)}
    files.write(note, json.dumps({"identity": identity, "inputs": inputs}, indent=1).encode())
    return Compiled(source, str(target), cubin, outcome.seconds, False, log, spills=_spills(said))


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def _holds(note: Path, identity: str) -> bool:
    """Whether the same command on files of the same content made what is there."""
    try:
        kept = json.loads(note.read_text(encoding="utf-8"))
        inputs: dict[str, str] = kept["inputs"]
    except (OSError, ValueError, KeyError):
        return False
    return bool(kept.get("identity") == identity and inputs and all(_digest(Path(p)) == d for p, d in inputs.items()))


def _dependencies(makefile: Path) -> Iterator[Path]:
    """The files of a rule that nvcc wrote: ``result : a.cu \\`` and so on, a blank in a name written as ``\\ ``."""
    text = makefile.read_text(encoding="utf-8", errors="surrogateescape").replace("\\\n", " ")
    _, _, listed = text.partition(" : ")
    for name in re.findall(r"(?:\\ |\S)+", listed):
        yield Path(name.replace("\\ ", " "))


def _complaints(said: str) -> Iterator[Complaint]:
    for line in said.splitlines():
        for pattern in _COMPLAINTS:
            if match := pattern.match(line):
                named = match.groupdict()
                yield Complaint(named.get("file") or "", int(named.get("line") or 0), named["text"].strip())
                break


def _spills(said: str) -> dict[str, tuple[int, int]]:
    return {name: (int(stores), int(loads)) for name, stores, loads in _SPILLS.findall(said)}
