"""The package's own predicate for an architecture, named like the one that the gate asks.

Next to ``is_sm100_supported`` a package often has ``is_sm120_supported``. It is used when its definition is found (in
this file, or where the sibling is imported from) and its body says for certain which archs it is true for.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ungate.model import KNOWN_ARCHS
from ungate.patch.edits import Place, Replacement
from ungate.patch.edits._arch_body import archs_of
from ungate.patch.edits._imports import Module

__all__ = ["Admission", "own"]

_DIGITS = re.compile(r"(?<=sm)(_?)(\d{2,3})([af]?)(?!\d)")


@dataclass(frozen=True, slots=True)
class Admission:
    """Python text that is true for ``archs``, ready to stand after ``or`` and ``not``, and the import it needs."""

    text: bytes
    archs: frozenset[int]
    imports: tuple[Replacement, ...] = ()


def _module_file(root: Path, file: str, statement: ast.ImportFrom) -> Path | None:
    parts = (statement.module or "").split(".") if statement.module else []
    if statement.level:
        base = Path(file).parent
        for _ in range(statement.level - 1):
            base = base.parent
        parts = [*base.parts, *parts]
    at = root.joinpath(*parts)
    for candidate in (at / "__init__.py", at.with_suffix(".py")):
        if parts and candidate.is_file():
            return candidate
    return None


def _defined(roots: tuple[Path, ...], path: Path, name: str, depth: int = 4) -> tuple[Module, ast.stmt] | None:
    """The module and the statement that define ``name``, followed through imports and ``import *``."""
    module = Module.read(path.read_bytes())
    statement = module.bound().get(name)
    if statement is not None and not isinstance(statement, ast.Import | ast.ImportFrom):
        return module, statement
    if depth == 0:
        return None
    steps = [statement] if isinstance(statement, ast.ImportFrom) else []
    steps += [s for s in module.tree.body if isinstance(s, ast.ImportFrom) and s.names[0].name == "*"]
    for step in steps:
        for root in roots:
            file = path.relative_to(root).as_posix() if path.is_relative_to(root) else ""
            if file and (target := _module_file(root, file, step)) and target != path:
                found = _defined(roots, target, name, depth - 1)
                if found:
                    return found
    return None


def _siblings(name: str, arch: int) -> Iterator[str]:
    """Names that would say the same of ``arch``: suffix dropped, kept or added; a private flag's public one too."""
    for suffix in ("", r"\3", "a"):
        sibling = _DIGITS.sub(lambda m, s=suffix: m[1] + str(arch) + (m[3] if s == r"\3" else s), name)  # type: ignore[misc]
        yield sibling
        if name.startswith("_"):
            yield sibling.lstrip("_")


def _needs_arguments(statement: ast.stmt) -> bool:
    if not isinstance(statement, ast.FunctionDef):
        return False
    arguments = statement.args
    return len(arguments.args) > len(arguments.defaults) or any(d is None for d in arguments.kw_defaults)


def _candidate(place: Place, module: Module, asked: ast.expr, arch: int) -> Admission | None:
    """The predicate for ``arch`` beside the one that the term ``asked`` names."""
    call = asked if isinstance(asked, ast.Call) else None
    head = call.func if call else asked
    if not isinstance(head, ast.Name) or not _DIGITS.search(head.id):
        return None
    bound = module.bound()
    roots = place.roots or (place.root,)
    here = place.root / place.gate.file
    for name in dict.fromkeys(_siblings(head.id, arch)):
        source = bound.get(name)
        imports: tuple[Replacement, ...] = ()
        if source is not None and not isinstance(source, ast.ImportFrom):
            found: tuple[Module, ast.stmt] | None = (module, source)
        else:
            origin = module.importing(name)
            beside = None if origin else _imported_sibling(module, head.id)
            statement = origin or (module.importing(beside) if beside else None)
            if statement is None:
                continue
            files = [f for root in roots if (f := _module_file(root, place.gate.file, statement)) and f != here]
            found = next((hit for f in files if (hit := _defined(roots, f, name))), None)
            if found and beside:
                imports = (module.add_name(statement, _last_sibling(statement, beside), name),)
        if found is None:
            continue
        archs = archs_of(found[1])
        if not archs or arch not in archs:
            continue
        if isinstance(source, ast.Assign) and found[0] is module and call is None:
            return Admission(name.encode(), archs)
        if call is None and _needs_arguments(found[1]):
            continue
        return Admission(name.encode() + _arguments(call), archs, imports)
    return None


def _arguments(call: ast.Call | None) -> bytes:
    """The asked predicate's own arguments, as they are written."""
    if call is None or not (call.args or call.keywords):
        return b"()"
    return b"(" + ast.unparse(ast.Call(ast.Name("f"), call.args, call.keywords))[2:].encode()


def _imported_sibling(module: Module, name: str) -> str | None:
    """The imported predicate of the same family that is nearest to ``name``: itself, or a flag's public name."""
    for candidate in (name, name.lstrip("_")):
        if module.importing(candidate):
            return candidate
    shape = _DIGITS.sub("sm", name.lstrip("_"))
    family = [n for n in module.bound() if _DIGITS.search(n) and _DIGITS.sub("sm", n) == shape and module.importing(n)]
    return family[-1] if family else None


def _last_sibling(statement: ast.ImportFrom, beside: str) -> str:
    """The last name of the family in the list, so that the new one stands behind it."""
    shape = _DIGITS.sub("sm", beside)
    family = [a.asname or a.name for a in statement.names if _DIGITS.sub("sm", a.asname or a.name) == shape]
    return family[-1] if family else beside


def _behind(module: Module, terms: Sequence[ast.expr]) -> list[ast.expr]:
    """What the flags among the terms were set from: calls without arguments, which mean the same anywhere."""
    found: list[ast.expr] = []
    for term in terms:
        statement = module.bound().get(term.id) if isinstance(term, ast.Name) else None
        if isinstance(statement, ast.Assign):
            calls = (node for node in ast.walk(statement.value) if isinstance(node, ast.Call))
            found += [call for call in calls if not call.args and not call.keywords]
    return found


def own(place: Place, module: Module, terms: Sequence[ast.expr]) -> Admission | None:
    """The package's predicates that together cover the wanted archs, None where they do not."""
    chosen: dict[bytes, Admission] = {}
    covered: set[int] = set()
    terms = [*_behind(module, terms), *terms]
    for arch in sorted(place.missing):
        if arch in covered:
            continue
        found = next((hit for term in reversed(terms) if (hit := _candidate(place, module, term, arch))), None)
        if found is None:
            return None
        chosen[found.text] = found
        covered |= found.archs
    imports = tuple(dict.fromkeys(r for each in chosen.values() for r in each.imports))
    archs = frozenset(covered) & frozenset(KNOWN_ARCHS)
    return Admission(b" or ".join(chosen), archs, _merged(imports)) if chosen else None


def _merged(imports: tuple[Replacement, ...]) -> tuple[Replacement, ...]:
    """Several names behind the same alias become one insertion."""
    by_place: dict[tuple[int, int], Replacement] = {}
    for each in imports:
        key = (each.start, each.end)
        if key in by_place and by_place[key].new != each.new:
            old = by_place[key]
            by_place[key] = Replacement(old.start, old.end, old.new + each.new, old.why)
        else:
            by_place[key] = each
    return tuple(by_place.values())
