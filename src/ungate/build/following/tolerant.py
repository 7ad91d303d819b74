"""A whole file, statement by statement, past what cannot be followed (a setup.py asks much of its machine)."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from ungate.build.following.frame import Frame
from ungate.build.following.text import File
from ungate.build.following.values import Raised, Unknown

__all__ = ["run"]


def run(file: File) -> tuple[str, ...]:
    """Work out a file's statements in order; answers with what was left out, in words.

    A name that a left out statement would have changed is not known from there on, so that nothing is built on it.
    """
    frame = Frame(file, {})
    skipped = tuple(_run(frame, file.tree.body))
    return skipped


def _run(frame: Frame, body: Sequence[ast.stmt]) -> Iterator[str]:
    for statement in body:
        try:
            if isinstance(statement, ast.If):
                chosen = statement.body if frame.value(statement.test) else statement.orelse
                yield from _run(frame, chosen)
            elif isinstance(statement, ast.ClassDef):
                continue
            else:
                frame.run([statement])
        except (Unknown, Raised) as reason:
            frame.forget(_changed(statement))
            yield f"line {statement.lineno} of {frame.file.path.name} was left out: {reason}"


def _changed(statement: ast.stmt) -> set[str]:
    """Names that a statement gives, and those whose value it may alter (``flags.append(…)``)."""
    found: set[str] = set()
    for node in ast.walk(statement):
        match node:
            case ast.Name(id=name, ctx=ast.Store()):
                found.add(name)
            case (
                ast.Call(func=ast.Attribute(value=ast.Name(id=name)))
                | ast.Subscript(value=ast.Name(id=name), ctx=ast.Store())
            ):
                found.add(name)
            case ast.alias(name=name, asname=asname):
                found.add(asname or name.partition(".")[0])
    return found
