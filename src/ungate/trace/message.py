"""From the text of an error back to the statement that writes it, and to the calls that give it those values."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ungate.trace.corpus import aside
from ungate.trace.graph import Graph, Site
from ungate.trace.module import Scope, dotted
from ungate.trace.route import thing_of
from ungate.trace.texts import matched, text_expressions

__all__ = ["Raised", "calls_with", "raised", "windows"]

_WORDS = 4  # words in a row that are searched for
_SHORTEST = 10  # characters of a piece of text that are searched for
_MOST_WINDOWS = 14
_FILLED = re.compile(r"(?<!\w)'[^'\s]*'(?!\w)|[^A-Za-z0-9_ ,.'/()-]+|\s\d[\d.]*\b|\[|\]")  # what a message was given
_MOST_PLACES = 60  # places of one piece; a piece with more is too common to tell anything


@dataclass(frozen=True, slots=True)
class Raised:
    """A statement whose text matches. ``line`` is where the text is written, ``at`` where it is raised (the same
    line but for a message that is put together first). ``values`` maps each expression filled in to what the message
    shows for it; ``fixed`` counts the characters that the statement and the text share."""

    scope: Scope
    line: int
    at: int
    values: Mapping[str, str]
    fixed: int
    raises: bool
    shared: str = ""  # the words that the statement and the text share, where that is only a part of both


def raised(graph: Graph, text: str) -> tuple[Raised, ...]:
    """Every statement of the packages whose message matches the text, the closest match first."""
    found: dict[tuple[str, int], Raised] = {}
    for file, line in _candidates(graph, text):
        module = graph.names.file(file)
        if module is None:
            continue
        scope = module.at(line)
        for node, parts, used in text_expressions(scope.node, line):
            match = matched(parts, text) if used else None
            if match is not None:
                at, raises = _raised_at(scope, node)
                found.setdefault(
                    (file, node.lineno), Raised(scope, node.lineno, at, match[1], match[0], raises, match[2])
                )
    return tuple(sorted(found.values(), key=lambda hit: (-hit.fixed, not hit.raises)))


def _candidates(graph: Graph, text: str) -> Iterator[tuple[str, int]]:
    """(file, line) of Python text that holds pieces of the message; the files that hold most of them first."""
    places: dict[str, set[int]] = {}
    votes: Counter[str] = Counter()
    for piece in windows(text):
        here: dict[str, set[int]] = {}
        for count, (file, offset) in enumerate(graph.corpus.places(piece, whole=False)):
            if count >= _MOST_PLACES:
                here = {}
                break
            if not aside(file):
                here.setdefault(file, set()).add(graph.corpus.line(file, offset))
        for file, lines in here.items():
            votes[file] += 1
            places.setdefault(file, set()).update(lines)
    for file, _ in votes.most_common(6):
        yield from ((file, line) for line in sorted(places[file]))


def windows(text: str) -> tuple[str, ...]:
    """Pieces of the text that are likely written out in one literal: runs of a few words, spread over the text."""
    runs = [run.strip() for run in _FILLED.split(text)]
    pieces: list[str] = []
    for run in runs:
        words = [match.span() for match in re.finditer(r"\S+", run)]
        sizes = {_WORDS, _WORDS - 1} if len(words) <= _WORDS + 1 else {_WORDS}
        if len(words) < _WORDS:
            pieces.append(run)
        for size in sorted(sizes, reverse=True):
            firsts = range(max(0, len(words) - size + 1))
            pieces.extend(run[words[index][0] : words[index + size - 1][1]] for index in firsts)
    pieces = list(dict.fromkeys(piece for piece in pieces if len(piece) >= _SHORTEST)) or [text.strip()]
    step = max(1, -(-len(pieces) // _MOST_WINDOWS))
    return tuple(pieces[::step])


def _raised_at(scope: Scope, node: ast.expr) -> tuple[int, bool]:
    """(line of the raise that hands a text on, whether it is raised at all) in the scope that writes it."""
    named = ""
    for statement in ast.walk(scope.node):
        if not isinstance(statement, ast.stmt) or not (
            statement.lineno <= node.lineno and (statement.end_lineno or statement.lineno) >= (node.end_lineno or 0)
        ):
            continue
        if isinstance(statement, ast.Raise | ast.Assert):
            return statement.lineno if isinstance(statement, ast.Raise) else node.lineno, True
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            named = dotted(statement.targets[0])
    later = (each for each in ast.walk(scope.node) if isinstance(each, ast.Raise) and each.lineno > node.lineno)
    for statement in later if named not in ("", "?") else ():
        if any(isinstance(child, ast.Name) and child.id == named for child in ast.walk(statement)):
            return statement.lineno, True
    return node.lineno, False


def calls_with(graph: Graph, hit: Raised) -> tuple[tuple[Site, ...], tuple[Site, ...]]:
    """(the calls that pass the values the message shows, all calls) of the function that raises.

    A value that the message shows is compared with the argument where that is written out as a literal.
    """
    every = tuple(site for site in graph.callers(thing_of(hit.scope)) if site.use.call and site.scope.name)
    order = _parameters(hit.scope)
    shown = hit.values.items()
    exact = tuple(site for site in every if any(_passes(site, order, name, text) for name, text in shown))
    return exact, every


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
