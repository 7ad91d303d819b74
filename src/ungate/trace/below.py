"""From a compiled module's build down to its kernels: what runs, and what is only built beside it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ungate.model import Gate, Hop, Reached
from ungate.trace.gates import Gates
from ungate.trace.jit import Build
from ungate.trace.native import Unit
from ungate.trace.reach import Translation, Translations

__all__ = ["Called", "below"]


class Called:
    """What of a module's exports is called: ``path`` by the feature, ``perhaps`` by the engine in a way that was
    not followed to the end. Every other export is not called, which was shown over all names that lead to it."""

    def __init__(self, path: Iterable[str], perhaps: Iterable[str] = ()) -> None:
        self.path = tuple(dict.fromkeys(path))
        self.perhaps = tuple(name for name in dict.fromkeys(perhaps) if name not in self.path)


def below(
    translations: Translations, build: Build, main: str, called: Called, gates: Gates
) -> tuple[tuple[Hop, ...], tuple[Hop, ...]]:
    """(hops on the path, hops apart) under one build. ``main`` is the export that the feature calls."""
    files = [source.file for source in build.sources if source.verified]
    module = translations.translation(files)
    exports = module.exports
    lost = [
        Hop("source", source.file, source.line, "", None, note="no file of the packages answers to this name")
        for source in build.sources
        if not source.verified
    ]
    if not files:
        return tuple(lost), ()
    known = main in exports
    runs = module.reached([main]) if known else frozenset()
    every = module.reached(called.path)
    perhaps = module.reached((*called.path, *called.perhaps))
    home = module.source_of(exports[main][2]) if known else ""
    path: list[Hop] = []
    apart: list[Hop] = []
    for source in files:
        on = not known or source == home or any(unit in runs for unit in module.files[source].units)
        hop = Hop("source", source, _export_line(module, source, main), _exported(module, source, main), True)
        own = _judge(module, source, gates.of(source), every, perhaps, known)
        hop = replace(hop, gates=own, note="" if on else _beside(module, source, called))
        (path if on else apart).append(hop)
        shared = module.units[home] if known else frozenset()
        for file in sorted(module.units[source] - {source} - (frozenset() if on else shared)):
            header = _header(module, file, _judge(module, file, gates.of(file), every, perhaps, known), runs, on)
            if header is not None and not any(header.file == other.file for other in (*path, *apart)):
                (path if on else apart).append(header)
    path.sort(key=lambda hop: ("source", "include", "kernel").index(hop.kind))
    return (*path, *lost), tuple(apart)


def _header(module: Translation, file: str, gates: tuple[Gate, ...], runs: frozenset[Unit], on: bool) -> Hop | None:
    """A header that holds kernels or gates; None for one that holds neither."""
    kernels = [unit for unit in module.files[file].units if unit.kernel]
    live = [unit for unit in kernels if unit in runs]
    if not gates and not (live if on else kernels):
        return None
    by, line = module.included[file]
    note = f"included by {by}:{line}"
    if on and not live:
        met = tuple(gate for gate in gates if gate.reached is not Reached.NO)
        return Hop("include", file, met[0].line, "", True, gates, note) if met else None
    shown = live or kernels
    names = list(dict.fromkeys(unit.name for unit in shown))
    kind = "kernel" if kernels else "include"
    first = min((unit.first for unit in shown), default=gates[0].line if gates else 1)
    return Hop(kind, file, first, ", ".join(names), True, gates, note)


def _judge(
    module: Translation,
    file: str,
    gates: tuple[Gate, ...],
    every: frozenset[Unit],
    perhaps: frozenset[Unit],
    known: bool,
) -> tuple[Gate, ...]:
    """Each gate of a native file with what is known about it being reached."""
    native = module.files[file]
    judged = []
    for gate in gates:
        unit = native.around(gate.line)
        if not known or not native.balanced:
            reached = Reached.UNKNOWN
        elif unit is None:
            held = [other for other in native.units if gate.line <= other.first and other.last <= gate.end_line]
            if any(other in every for other in held):
                reached = Reached.YES
            elif any(other in perhaps for other in native.units):
                reached = Reached.UNKNOWN
            else:
                reached = Reached.NO
        elif unit in every:
            reached = Reached.YES
        else:
            reached = Reached.UNKNOWN if unit in perhaps else Reached.NO
        judged.append(replace(gate, reached=reached, symbol=gate.symbol or (unit.name if unit else "")))
    return tuple(judged)


def _exported(module: Translation, source: str, main: str) -> str:
    names = [name for name, (_, _, file) in module.exports.items() if file == source]
    return main if main in names else ", ".join(names)


def _export_line(module: Translation, source: str, main: str) -> int:
    lines = {name: line for name, (_, line, file) in module.exports.items() if file == source}
    return lines.get(main) or min(lines.values(), default=1)


def _beside(module: Translation, source: str, called: Called) -> str:
    """Why a co-compiled source stands apart, in words."""
    names = [name for name, (_, _, file) in module.exports.items() if file == source]
    used = [name for name in names if name in called.path]
    perhaps = [name for name in names if name in called.perhaps]
    if used:
        return f"built into the same module; of what it exports the engine calls only {', '.join(used)}"
    if perhaps:
        return f"built into the same module; whether the engine calls {', '.join(perhaps)} could not be resolved"
    return "built into the same module, not called by this engine"
