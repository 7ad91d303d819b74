"""Names that a Python file has at module level, and how one more is imported: one insertion, formatting kept."""

from __future__ import annotations

import ast
import functools
import re
from dataclasses import dataclass

from ungate.patch.edits import Replacement, Unopenable

__all__ = ["Module"]


@dataclass(frozen=True, slots=True)
class Module:
    """A parsed Python file."""

    content: bytes
    tree: ast.Module

    @classmethod
    def read(cls, content: bytes) -> Module:
        """Parse the file; Unopenable where it is no Python."""
        return _read(content)

    def _offset(self, line: int, column: int) -> int:
        at = 0
        for _ in range(line - 1):
            at = self.content.index(b"\n", at) + 1
        return at + column

    def bound(self) -> dict[str, ast.stmt]:
        """Names bound on import whatever happens: not inside functions or classes, nor under a try or an if."""
        found: dict[str, ast.stmt] = {}
        for statement in self.tree.body:
            match statement:
                case ast.Import(names=names) | ast.ImportFrom(names=names):
                    for alias in names:
                        found[(alias.asname or alias.name).split(".")[0]] = statement
                case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.AsyncFunctionDef(name=name):
                    found[name] = statement
                case ast.Assign(targets=targets):
                    for target in targets:
                        if isinstance(target, ast.Name):
                            found[target.id] = statement
                case ast.AnnAssign(target=ast.Name(id=name)):
                    found[name] = statement
                case _:
                    pass
        return found

    def importing(self, name: str) -> ast.ImportFrom | None:
        """The module-level ``from … import`` that binds the name."""
        statement = self.bound().get(name)
        return statement if isinstance(statement, ast.ImportFrom) else None

    def add_name(self, statement: ast.ImportFrom, after: str, name: str) -> Replacement:
        """Add ``name`` to an existing ``from … import`` list, behind the name ``after``."""
        alias = next(a for a in statement.names if (a.asname or a.name) == after)
        assert alias.end_lineno is not None and alias.end_col_offset is not None
        end = self._offset(alias.end_lineno, alias.end_col_offset)
        first = self._offset(statement.lineno, statement.col_offset)
        begin = self._offset(alias.lineno, alias.col_offset)
        line = self.content.rfind(b"\n", 0, begin) + 1
        indent = self.content[line:begin]
        alone = line > first and not indent.strip()
        separator = b",\n" + indent if alone else b", "
        return Replacement(end, end, separator + name.encode(), f"brings in {name}")

    def add_import(self, name: str) -> Replacement:
        """Insert ``import name`` before the first plain import that is not from ``__future__``."""
        body = self.tree.body
        for statement in body:
            if isinstance(statement, ast.ImportFrom) and statement.module == "__future__":
                continue
            if isinstance(statement, ast.Import | ast.ImportFrom):
                at = self._offset(statement.lineno, 0)
                return Replacement(at, at, b"import " + name.encode() + b"\n", f"brings in {name}")
        at = 0
        for statement in body:
            docstring = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
            future = isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
            if not (docstring or future):
                break
            assert statement.end_lineno is not None
            at = self._offset(statement.end_lineno, 0)
            at = self.content.find(b"\n", at) + 1 or len(self.content)
        if at == 0 and (comment := re.match(rb"(?:#[^\n]*\n)+", self.content)):
            at = comment.end()
        return Replacement(at, at, b"import " + name.encode() + b"\n", f"brings in {name}")


@functools.lru_cache(maxsize=64)
def _read(content: bytes) -> Module:
    # several gates of a series ask the same few files
    try:
        return Module(content, ast.parse(content))
    except (SyntaxError, ValueError):
        raise Unopenable("the file is not Python that this interpreter can parse") from None
