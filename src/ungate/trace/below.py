"""From a compiled module's build down to its kernels: what runs, and what is only built beside it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ungate.model import KNOWN_ARCHS, Gate, Hop, Reached
from ungate.trace.gates import Gates
from ungate.trace.jit import Build
from ungate.trace.native import Native, Unit
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
    home = module.source_of(exports[main][2]) if known else ""
    judge = _Judge(
        module,
        module.reached(called.path),
        module.reached((*called.path, *called.perhaps), wide=True),
        known,
    )
    runs = module.reached([main]) if known else frozenset()
    path: list[Hop] = []
    apart: list[Hop] = []
    for source in sorted(files, key=lambda file: file != home):
        on = not known or source == home or any(unit in runs for unit in module.files[source].units)
        own = judge.gates(source, gates.of(source))
        note = "" if on else _beside(module, source, called)
        symbol, line = _exported(module, source, main), _export_line(module, source, main)
        (path if on else apart).append(Hop("source", source, line, symbol, True, own, note))
        shared = module.units[home] if known else frozenset()
        for file in sorted(module.units[source] - {source} - (frozenset() if on else shared)):
            if any(hop.file == file for hop in (*path, *apart)):
                continue
            header = _header(module, source, file, judge.gates(file, gates.of(file)), runs, on)
            if header is not None:
                (path if on else apart).append(header)
    path.sort(key=lambda hop: ("source", "include", "kernel").index(hop.kind))
    return (*path, *lost), tuple(apart)


def _header(
    module: Translation, source: str, file: str, gates: tuple[Gate, ...], runs: frozenset[Unit], on: bool
) -> Hop | None:
    """A header that holds kernels or gates; None for one that holds neither."""
    kernels = [unit for unit in module.files[file].units if unit.kernel]
    live = [unit for unit in kernels if unit in runs]
    if not gates and not (live if on else kernels):
        return None
    by, line = module.included(file, source)
    note = f"included by {by}:{line}"
    if on and not live:
        met = tuple(gate for gate in gates if gate.reached is not Reached.NO)
        return Hop("include", file, met[0].line, "", True, gates, note) if met else None
    shown = live or kernels
    names = list(dict.fromkeys(unit.name for unit in shown))
    kind = "kernel" if kernels else "include"
    first = min((unit.first for unit in shown), default=gates[0].line if gates else 1)
    return Hop(kind, file, first, ", ".join(names), True, gates, note)


class _Judge:
    """What is known about a gate of a native file being reached: ``runs`` surely run, ``may`` may run."""

    def __init__(self, module: Translation, runs: frozenset[Unit], may: frozenset[Unit], known: bool) -> None:
        self.module = module
        self.runs = runs
        self.may = may
        self.known = known

    def gates(self, file: str, gates: tuple[Gate, ...]) -> tuple[Gate, ...]:
        """The gates with ``reached`` set. Left out are those that only give older architectures a definition that
        newer ones have anyway."""
        native = self.module.files[file]
        judged = []
        for gate in gates:
            unit = native.around(gate.line)
            inside = [unit] if unit is not None else _guarded(native, gate)
            if unit is None and inside and _for_older(gate):
                continue
            symbol = gate.symbol or (unit.name if unit is not None else "")
            judged.append(replace(gate, reached=self._reached(native, inside), symbol=symbol))
        met = {name for gate in judged if gate.reached is Reached.YES for name in gate.names}
        return tuple(
            replace(gate, reached=Reached.YES) if self._defines(native, gate, met) else gate for gate in judged
        )

    def _reached(self, native: Native, units: list[Unit]) -> Reached:
        if not self.known or not native.balanced:
            return Reached.UNKNOWN
        if any(unit in self.runs for unit in units):
            return Reached.YES
        held = units or list(native.units)
        return Reached.UNKNOWN if any(unit in self.may for unit in held) else Reached.NO

    def _defines(self, native: Native, gate: Gate, met: set[str]) -> bool:
        """Whether the gate decides about a macro that a reached gate asks for."""
        return gate.reached is not Reached.YES and any(unit.name in met for unit in _guarded(native, gate))


def _guarded(native: Native, gate: Gate) -> list[Unit]:
    """What stands between a file-level condition and the end of its group."""
    last = native.regions.get(gate.line, gate.end_line)
    return [unit for unit in native.units if gate.line <= unit.first and unit.last <= last]


def _for_older(gate: Gate) -> bool:
    """Whether the archs that pass are all that are older than some architecture, from the oldest known one on; or
    none at all, because the toolkit's version decides."""
    if not gate.passes.decided:
        return False
    newest = max(gate.passes.yes, default=0)
    return all((arch in gate.passes.yes) == (arch <= newest) for arch in KNOWN_ARCHS) and newest < KNOWN_ARCHS[-1]


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
