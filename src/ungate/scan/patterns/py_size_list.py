"""The sizes that a kernel is built for on one architecture.

::

    head_size_qk_sm120_values = [64, 128, 256]

    fmha_library.py:1271  generate_kernels  passes sm_120

What is not in the list is not built there, however open every other gate is: another size needs an entry and, often, a
kernel that fits. The architecture is taken from the list's name.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ungate.model import Form
from ungate.scan.draft import Draft, Finds, Nothing
from ungate.scan.patterns import pattern
from ungate.source.condition import Known
from ungate.source.matcher import matcher
from ungate.source.python.capability import archs_of_name
from ungate.source.python.file import PythonFile

__all__ = ["SAMPLES", "find"]

_NAME = re.compile(r"(?:^|_)(sm_?[0-9]{2,3}[af]?)(?:_\w+)?_(?:values?|sizes?|dims?|shapes?)$", re.I)
_TEXT = matcher(r"sm_?[0-9]{2,3}[af]?\w*_(?:value|size|dim|shape)", fold=True)


def _is_size(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=int() as number):
            return not isinstance(number, bool)
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            return bool(elements) and all(_is_size(each) for each in elements)
        case _:
            return False


@pattern("py-size-list", kind="dispatch-table", language="python", rank=60)
def find(file: PythonFile) -> Iterator[Draft]:
    """Every list of sizes under a name that holds an architecture and says that it lists sizes."""
    for node, scope, unit in file.walk(_TEXT, ast.Assign, ast.AnnAssign):
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                pass
            case _:
                continue
        named = _NAME.search(name)
        archs = archs_of_name(named.group(1).lower()) if named is not None else None
        if not archs or not isinstance(value, ast.List | ast.Tuple | ast.Set):
            continue
        if not value.elts or not all(_is_size(each) for each in value.elts):
            continue
        span = file.module.span(value, value, unit.shift)
        yield Draft(
            line=node.lineno + unit.shift,
            end_line=(value.end_lineno or value.lineno) + unit.shift,
            condition=Known(archs, name),
            text=f"{name} in {' '.join(file.module.text(span).split())}",
            role="define",
            form=Form.FIXED,
            span=span,
            symbol=scope.qualname,
            names=(name,),
            note="sizes, not architectures: an entry needs a kernel of that size",
        )


SAMPLES = (
    Nothing("a list without an arch", "head_size_values = [64, 128]\n"),
    Nothing("a list of configurations", "sm90_configs = [Config(64), Config(128)]\n"),
    Nothing("one size", "sm90_tile_size = 64\n"),
    Finds(
        "sizes for one arch",
        "def f():\n    head_sm120_values = [64, 128, 256]\n    return is_sm120() and head_sm120_values\n",
        {2: (120,)},
        {2: "[64, 128, 256]"},
    ),
    Finds("shapes", "SM90_TILE_SHAPES = ((64, 128), (128, 128))\n", {1: (90,)}),
)
