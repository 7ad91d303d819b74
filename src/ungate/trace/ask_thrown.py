"""Answers to the text of an error that C++ or CUDA code writes: the statement, and the modules it is compiled into."""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ungate.model import Chain, Gate, Hop, Reached
from ungate.trace.answers import of_symbol
from ungate.trace.chain import Trace
from ungate.trace.gates import marked
from ungate.trace.jit import build_of
from ungate.trace.message import windows
from ungate.trace.names import Thing
from ungate.trace.route import thing_of
from ungate.trace.thrown import Thrown, including, thrown

__all__ = ["of_binary", "of_thrown"]

_NATIVE = frozenset({"raise", "source", "include", "kernel"})
_FREE = (
    "No condition on an architecture was found around the statement itself: sizes, types or limits of the device, such "
    "as its shared memory, may decide while running."
)
_MOST_SOURCES = 40
_MOST_CHAINS = 2


def of_thrown(trace: Trace, text: str) -> tuple[Chain, ...]:
    """From a message of C++ or CUDA code: the statement that writes it at the end of the chain of each module that
    it is compiled into, two of them at most."""
    hits = thrown(trace.corpus, text)
    if not hits:
        return ()
    hit = hits[0]
    own = _hop(trace, hit)
    notes = [f"The message is written at {hit.file}:{hit.line}."]
    same = [f"{other.file}:{other.line}" for other in hits[1:8] if other.fixed == hit.fixed and other.file != hit.file]
    if same:
        notes.append(f"The same text is also written at {', '.join(same)}.")
    builds = _builds(trace, hit)
    if len(builds) > _MOST_CHAINS:
        told = ", ".join(f"{thing.name}" for thing in builds[_MOST_CHAINS:])
        notes.append(f"It is also compiled into what these build: {told}.")
    chains = []
    for thing in builds[:_MOST_CHAINS]:
        chain = of_symbol(trace, thing, text)
        # The code that writes it was built and ran: conditions in the rest of the module did not hold it back.
        hops = [hop for hop in chain.hops if hop.kind not in _NATIVE]
        free = () if own.gates else (_FREE,)
        chains.append(replace(chain, hops=(*hops, own), apart=(), notes=(*notes, *free, *chain.notes)))
    if chains:
        return tuple(chains)
    lost = Hop("source", "", 0, "", None, note=f"no module that {hit.file} is compiled into was found")
    return (Chain(text, trace.target, (lost, own), (), tuple(notes)),)


def _hop(trace: Trace, hit: Thrown) -> Hop:
    native = trace.translations.native(hit.file)
    unit = native.around(hit.line)
    found = trace.gates.between(hit.file, hit.first, hit.last)
    otherwise = _otherwise(trace, hit)
    gates = marked(dict.fromkeys((*found, *otherwise)), Reached.YES)
    tests = (f"{hit.file}:{hit.first} {hit.condition}",) if hit.condition else ()
    note = "raises this where the following holds" if tests else "writes this"
    return Hop("raise", hit.file, hit.line, unit.name if unit is not None else "", True, gates, note, tests)


def _otherwise(trace: Trace, hit: Thrown) -> list[Gate]:
    """Preprocessor gates in whose ``#else`` the statement stands: closed means that this is what is left."""
    lines = trace.corpus.text(hit.file).split(b"\n")
    regions = trace.translations.native(hit.file).regions
    found = []
    for gate in trace.gates.of(hit.file):
        if not gate.line < hit.line <= regions.get(gate.line, 0):
            continue
        depth = 0
        for line in lines[gate.line : hit.line]:
            word = line.strip().removeprefix(b"#").strip()
            if not line.lstrip().startswith(b"#"):
                continue
            depth += word.startswith(b"if") - word.startswith(b"endif")
            if word.startswith(b"else") and not depth:
                found.append(gate)
                break
    return found


def _builds(trace: Trace, hit: Thrown) -> list[Thing]:
    """The functions that compile a module with the statement in it; those from whose exports it is reached first."""
    found: dict[Thing, bool] = {}
    for source in including(trace.corpus, hit.file)[:_MOST_SOURCES]:
        name = source.rpartition("/")[2]
        for file, offset in trace.corpus.places(name):
            module = trace.graph.names.file(file)
            scope = module.at(trace.corpus.line(file, offset)) if module is not None else None
            if scope is None or scope.kind != "function" or not trace.graph.names.building(thing_of(scope)):
                continue
            thing = thing_of(scope)
            if thing not in found:
                found[thing] = _runs(trace, thing, hit)
    return sorted(found, key=lambda thing: not found[thing])


def _runs(trace: Trace, thing: Thing, hit: Thrown) -> bool:
    scope = trace.graph.scope(thing)
    if scope is None:
        return False
    build = build_of(trace.graph.names, scope)
    module = trace.translations.translation([source.file for source in build.sources if source.verified])
    native = module.files.get(hit.file)
    unit = native.around(hit.line) if native is not None else None
    return unit is not None and unit in module.reached(module.exports)


def of_binary(trace: Trace, text: str) -> tuple[Chain, ...]:
    """For a message that no text of the packages writes: the shared libraries that hold it, and for which
    architectures they are."""
    pieces = [piece.encode() for piece in windows(text)]
    hops: list[Hop] = []
    for file, path in trace.corpus.native.items():
        if file.endswith(".so") and (count := _held(path, pieces)) * 2 >= len(pieces):
            note = f"holds {'this text' if count == len(pieces) else 'most of this text'}"
            said = trace.binaries.told(file, trace.target)
            hops.append(Hop("kernel", file, 0, path.name, True, note=f"{note}; {said[0]}", blocker=said[1]))
    if not hops:
        return ()
    notes = (
        "The message is written by code that was compiled ahead of time; its source is not among these packages. Which "
        f"kernels it has for {trace.target} was decided when it was built, and no edit here adds one: another release, "
        "or a build from source for this GPU, can.",
    )
    return (Chain(text, trace.target, tuple(hops), (), notes),)


def _held(path: Path, pieces: Sequence[bytes]) -> int:
    try:
        with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ) as text:
            return sum(text.find(piece) >= 0 for piece in pieces)
    except (OSError, ValueError):
        return 0
