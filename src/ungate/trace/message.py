"""From the text of an error back to the statement that writes it, and to the calls that give it those values."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ungate.trace.graph import Graph, Site
from ungate.trace.module import Scope
from ungate.trace.route import thing_of

__all__ = ["Raised", "calls_with", "raised"]

_SHORTEST = 10  # characters of a fixed piece of text that are searched for
_MOST_PIECES = 6


@dataclass(frozen=True, slots=True)
class Raised:
    """A statement whose text matches. ``values`` maps each expression filled in to what the message shows for it."""

    scope: Scope
    line: int
    values: Mapping[str, str]
    fixed: int  # characters of the message that the statement writes out itself


def raised(graph: Graph, text: str) -> tuple[Raised, ...]:
    """Every statement of the packages whose message matches the text, the closest match first."""
    found: dict[tuple[str, int], Raised] = {}
    for piece in _pieces(text):
        for file, offset in graph.corpus.places(piece, whole=False):
            module = graph.names.file(file)
            if module is None:
                continue
            line = graph.corpus.line(file, offset)
            scope = module.at(line)
            for node in _literals(scope.node, line):
                match = _matches(node, text)
                if match is not None:
                    fixed, values = match
                    found.setdefault((file, node.lineno), Raised(scope, node.lineno, values, fixed))
        if found:
            break
    return tuple(sorted(found.values(), key=lambda hit: -hit.fixed))


def calls_with(graph: Graph, hit: Raised) -> tuple[tuple[Site, ...], tuple[Site, ...]]:
    """(the calls that pass the values the message shows, all calls) of the function that raises.

    A value that the message shows is compared with the argument where that is written out as a literal.
    """
    every = tuple(site for site in graph.callers(thing_of(hit.scope)) if site.use.call and site.scope.name)
    order = _parameters(hit.scope)
    shown = hit.values.items()
    exact = tuple(site for site in every if any(_passes(site, order, name, text) for name, text in shown))
    return exact, every


def _pieces(text: str) -> Iterator[str]:
    """Runs of the text that are likely written out in the source, the longest first."""
    runs = [run.strip() for run in re.split(r"[^A-Za-z _,'-]+", text)]
    runs = [run for run in runs if len(run) >= _SHORTEST] or [text.strip()]
    shorter = [" ".join(run.split()[:4]) for run in runs if len(run.split()) > 4]
    yield from sorted(dict.fromkeys((*runs, *shorter)), key=len, reverse=True)[:_MOST_PIECES]


def _literals(node: ast.AST, line: int) -> Iterator[ast.Constant | ast.JoinedStr]:
    for child in ast.walk(node):
        is_text = isinstance(child, ast.Constant) and isinstance(child.value, str)
        if isinstance(child, ast.JoinedStr | ast.Constant) and (is_text or isinstance(child, ast.JoinedStr)):
            if not child.lineno <= line <= (child.end_lineno or child.lineno):
                continue
            yield child


def _matches(node: ast.Constant | ast.JoinedStr, text: str) -> tuple[int, dict[str, str]] | None:
    """(characters written out, expression → text shown) where the literal writes this text or a part of it."""
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    pattern, names, fixed = "", [], 0
    for part in parts:
        if isinstance(part, ast.Constant):
            words = str(part.value)
            fixed += len(words.strip())
            pattern += r"\s+".join(re.escape(word) for word in re.split(r"\s+", words))
        elif isinstance(part, ast.FormattedValue):
            names.append(ast.unparse(part.value))
            pattern += "(.+?)"
    if fixed < _SHORTEST:
        return None
    match = re.search(pattern + (r"\s*$" if pattern.endswith("(.+?)") else ""), text.strip())
    if match is None:
        whole = "".join(str(part.value) for part in parts if isinstance(part, ast.Constant))
        return (len(text.strip()), {}) if len(text.strip()) >= _SHORTEST and text.strip() in whole else None
    return fixed, {name: shown for name, shown in zip(names, match.groups(), strict=True) if shown is not None}


def _parameters(scope: Scope) -> tuple[str, ...]:
    node = scope.node
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return ()
    names = tuple(argument.arg for argument in (*node.args.posonlyargs, *node.args.args))
    return names[1:] if names[:1] in (("self",), ("cls",)) else names


def _passes(site: Site, order: tuple[str, ...], name: str, shown: str) -> bool:
    """Whether a call hands the function the value that the message shows for one of its parameters."""
    calls = (node for node in ast.walk(site.scope.node) if isinstance(node, ast.Call))
    call = next((call for call in calls if call.func is site.use.node), None)
    if call is None:
        return False
    values = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    values.update(zip(order, call.args, strict=False))
    given = values.get(name)
    return given is not None and re.sub(r"\s", "", ast.unparse(given)) == re.sub(r"\s", "", shown)
