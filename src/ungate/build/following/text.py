"""The Python files of a package, and what their top-level names hold."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ungate.build.following.frame import Frame
from ungate.build.following.values import BUILTINS, Class, Dotted, Function, Unknown

__all__ = ["File", "Text"]


class Text:
    """The Python files below ``roots``, read when asked for.

    ``facts`` give the value of a name of a module that is not followed (``torch.cuda.current_device``); a function
    there is called. ``instead`` replaces functions and names of the package's own, by full or by bare name.
    """

    def __init__(self, roots: Sequence[Path], facts: Mapping[str, Any], instead: Mapping[str, Any]) -> None:
        self.roots, self.facts, self.instead = tuple(roots), dict(facts), dict(instead)
        self._files: dict[str, File | None] = {}
        self.steps = 0

    def file(self, dotted: str) -> File | None:
        """The file of a module; None where it is none of these roots'."""
        if dotted not in self._files:
            self._files[dotted] = None
            for root in self.roots:
                for path in (
                    root / (dotted.replace(".", "/") + ".py"),
                    root / dotted.replace(".", "/") / "__init__.py",
                ):
                    if path.is_file():
                        self._files[dotted] = File(self, dotted, path)
                        return self._files[dotted]
        return self._files[dotted]

    def named(self, dotted: str) -> Any:
        """What a full name stands for."""
        last = dotted.rpartition(".")[2]
        for key in (dotted, last):
            if key in self.instead:
                return self.instead[key]
        if dotted in self.facts:
            return self.facts[dotted]
        owner, _, name = dotted.rpartition(".")
        if owner and (file := self.file(owner)) and file.has(name):
            return file.name(name)
        return Dotted(dotted)


class File:
    """One Python file: its top-level names, each worked out when first used."""

    def __init__(self, text: Text, dotted: str, path: Path) -> None:
        self.text, self.dotted, self.path = text, dotted, path
        self.package = dotted if path.name == "__init__.py" else dotted.rpartition(".")[0]
        try:
            self.tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
        except (OSError, SyntaxError, UnicodeDecodeError) as error:
            raise Unknown(f"{path} cannot be read: {error}") from None
        self._statements = dict(_given(self.tree.body))
        self._values: dict[str, Any] = {}
        self._begun: set[str] = set()

    def has(self, name: str) -> bool:
        return name in self._statements or name in self._values

    def name(self, name: str) -> Any:
        """What a top-level name holds."""
        if name in self._values:
            return self._values[name]
        if name == "__file__":
            return str(self.path)
        for key in (f"{self.dotted}.{name}", name):
            if key in self.text.instead:
                return self.text.instead[key]
        statement = self._statements.get(name)
        if name in self._begun:  # a package that imports its own part of that name
            return Dotted(f"{self.dotted}.{name}")
        if statement is not None:
            self._begun.add(name)
        match statement:
            case None if name in BUILTINS:
                return BUILTINS[name]
            case None:
                raise Unknown(f"'{name}' is not known in {self.path.name}")
            case ast.FunctionDef():
                value: Any = Function(self, statement)
            case ast.ClassDef():
                value = Class(self, statement)
            case _:
                frame = Frame(self, {})
                frame.run([_only(statement, name)])
                value = frame.names[name]
        self._values[name] = value
        return value

    def keep(self, name: str, value: Any) -> None:
        """A function's assignment to a global name."""
        self._values[name] = value

    def call(self, function: str, arguments: Mapping[str, Any]) -> Any:
        """What a function of the file returns, or the object of a class; Unknown or Raised where that is not told."""
        found = self.name(function)
        if not isinstance(found, Function | Class):
            raise Unknown(f"'{function}' of {self.path.name} is neither a function nor a class")
        return Frame(self, {}).called(found, (), dict(arguments))


def _given(body: Sequence[ast.stmt]) -> Iterator[tuple[str, ast.stmt]]:
    """Top-level names and the statement that gives each, the last one winning; what only a type checker sees first."""
    for statement in body:
        match statement:
            case ast.If(test=test) if "TYPE_CHECKING" in ast.unparse(test):
                yield from _given(statement.orelse)
            case ast.If() | ast.Try():
                yield from _given([*statement.orelse, *statement.body])
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name, statement
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                for alias in names:
                    yield alias.asname or alias.name.partition(".")[0], statement
            case ast.Assign(targets=targets):
                for target in targets:
                    for node in ast.walk(target):
                        if isinstance(node, ast.Name):
                            yield node.id, statement
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr()):
                yield name, statement


def _only(statement: ast.stmt, name: str) -> ast.stmt:
    """Of an import the one name that is asked for, so that no other is worked out."""
    if isinstance(statement, ast.ImportFrom):
        chosen = [alias for alias in statement.names if (alias.asname or alias.name) == name]
        return ast.ImportFrom(statement.module, chosen, statement.level)
    return statement
