"""The least or the greatest capability that a class, a function or a requirement is for.

::

    class FwOp(AttentionFwOpBase):
        CUDA_MINIMUM_COMPUTE_CAPABILITY = (9, 0)

    ops/fmha/flash3.py:577  FwOp  passes sm_90 and later

The name says that the value is a bound: ``min`` or ``max`` with capability, arch, sm, cc or major. What compares a
device with it stands elsewhere, often once for all classes. A local variable is left to the comparison that reads it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator

from ungate.model import KNOWN_ARCHS, Form
from ungate.scan.draft import Draft, Finds, Nothing
from ungate.scan.patterns import pattern
from ungate.source.condition import All, Condition, where
from ungate.source.matcher import matcher
from ungate.source.python.capability import capability_number
from ungate.source.python.file import PythonFile
from ungate.source.python.module import Unit
from ungate.source.python.scopes import Scope

__all__ = ["SAMPLES", "find"]

_SUBJECT = r"(?:capability|compute_cap|sm|sm_version|arch|cuda_arch|sm_arch|cc|major|major_version)"
_NAME = re.compile(
    rf"_*(?:[a-z0-9]+_)*?(min|max)(?:imum|imal)?_(?:[a-z]+_)*?({_SUBJECT})"
    rf"|_*(?:[a-z0-9]+_)*?({_SUBJECT})_(min|max)(?:imum)?",
    re.I,
)
_TEXT = matcher(
    r"(?:min|max)(?:imum|imal)?_(?:[a-z]+_)*(?:capability|compute_cap|sm|arch|cc|major)"
    r"|(?:capability|compute_cap|sm|arch|cc|major)_(?:min|max)",
    fold=True,
)
_CAPABILITIES = frozenset({*KNOWN_ARCHS, 50, 52, 53, 60, 61, 62, 70, 72})
_NOTE = "a bound: a wider one lets in every architecture between"


def _bound(file: PythonFile, name: str, node: ast.expr, scope: Scope, unit: Unit) -> Condition | None:
    """What lies within a bound of that name and value; None where it is no bound of a capability."""
    spelled = _NAME.fullmatch(name)
    if spelled is None:
        return None
    greatest = (spelled[1] or spelled[4]).lower() == "max"
    value = file.evaluator.fresh(node, file.frame(node, scope, unit))
    if "major" in (spelled[2] or spelled[3]).lower():
        if not isinstance(value, int) or isinstance(value, bool) or not 5 <= value <= 13:
            return None
        number, scale = value, 10
    else:
        found = capability_number(value)
        if found is None or (isinstance(value, int) and value not in _CAPABILITIES):
            return None
        number, scale = found, 1
    test: Callable[[int], bool] = (
        (lambda arch: arch // scale <= number) if greatest else (lambda arch: arch // scale >= number)
    )
    return where(test, f"{name} {ast.unparse(node)}")


def _given(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            yield name, value
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
            yield name, value
        case ast.Call(keywords=keywords):
            yield from ((each.arg, each.value) for each in keywords if each.arg)
        case ast.FunctionDef(name=name, body=body):
            returned = [each for each in body if isinstance(each, ast.Return)]
            others = [each for each in body if not isinstance(each, ast.Return | ast.Expr)]
            if len(returned) == 1 and not others and returned[0].value is not None:
                yield name, returned[0].value
        case _:
            pass


@pattern("py-bound", kind="python-capability-compare", language="python", rank=45)
def find(file: PythonFile) -> Iterator[Draft]:
    """Bounds of classes and modules, of functions that return one, and arguments that are one."""
    for node, scope, unit in file.walk(_TEXT, ast.Assign, ast.AnnAssign, ast.Call, ast.FunctionDef):
        if scope.kind == "function" and not isinstance(node, ast.Call):
            continue
        found = [
            (name, value, condition)
            for name, value in _given(node)
            if (condition := _bound(file, name, value, scope, unit)) is not None
        ]
        if not found:
            continue
        first, last = found[0][1], found[-1][1]
        symbol = (scope.qualname, node.name) if isinstance(node, ast.FunctionDef) else (scope.qualname,)
        yield Draft(
            line=first.lineno + unit.shift,
            end_line=(last.end_lineno or last.lineno) + unit.shift,
            condition=All(tuple(condition for _, _, condition in found)),
            text=", ".join(f"{name} = {' '.join(ast.unparse(value).split())}" for name, value, _ in found),
            role="test" if isinstance(node, ast.Call) else "define",
            form=Form.FIXED,
            span=file.module.span(first, last, unit.shift),
            symbol=".".join(filter(None, symbol)),
            names=tuple(name for name, _, _ in found),
            note=_NOTE,
        )


_FROM_90 = (90, 100, 103, 107, 110, 120, 121)

SAMPLES = (
    Nothing("a number of multiprocessors", "f(min_sm=16, max_sm=132)\nMAX_SM = 108\n"),
    Nothing("none", "class A:\n    MAX_CAPABILITY = None\n    MIN_CAPABILITY = -1\n"),
    Nothing("a local variable", "def f():\n    min_capability = 80\n    return min_capability\n"),
    Nothing("an alias", "class A:\n    def get_min_capability(cls):\n        return Base.get_min_capability()\n"),
    Finds(
        "bounds of a class",
        "class A:\n    CUDA_MINIMUM_COMPUTE_CAPABILITY = (9, 0)\n    CUDA_MAXIMUM_COMPUTE_CAPABILITY: T = (9, 0)\n",
        {2: _FROM_90, 3: (75, 80, 86, 87, 88, 89, 90)},
    ),
    Finds(
        "a function that returns a bound",
        'class A:\n    @classmethod\n    def get_min_capability(cls):\n        """In tens."""\n        return 90\n',
        {5: _FROM_90},
    ),
    Finds("a range", "NEEDS = Need.cuda(\n    min_sm=(10, 0), max_sm=(10, 9)\n)\n", {2: (100, 103, 107)}),
    Finds("a pair that could be two majors", "MIN_CC = (8, 9)\n", {1: (89, *_FROM_90)}),
    Finds("majors", "run(min_major=10)\n", {1: (100, 103, 107, 110, 120, 121)}),
)
