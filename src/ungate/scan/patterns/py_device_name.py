"""A GPU is recognised by the name that its driver reports.

::

    is_h20_device = "H20" in device_name and "H200" not in device_name

    fused_moe_triton_kernels.py:73  passes unknown

Which architectures bear that name cannot be read from the source, so the set is unknown.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ungate.model import Form
from ungate.scan.draft import Draft, Finds, Nothing
from ungate.scan.patterns import pattern
from ungate.source.condition import Unknown
from ungate.source.matcher import matcher
from ungate.source.python.file import PythonFile

__all__ = ["SAMPLES", "find"]

_TEXT = matcher("device_name|gpu_name|device_properties")
_HOLDS = re.compile(r"(?:device|gpu)_?name|get_device_name|get_gpu_name", re.I)
_MODEL = re.compile(
    r"(?:RTX|GeForce|Tesla|Quadro|Spark|Thor|Orin|Jetson|Ada|Blackwell|Hopper)|\b(?:GB|GH|[ABHLTV])\d{1,3}\b", re.I
)


def _about_name(node: ast.AST) -> bool:
    for each in ast.walk(node):
        name = each.id if isinstance(each, ast.Name) else each.attr if isinstance(each, ast.Attribute) else ""
        if _HOLDS.search(name):
            return True
    return False


def _is_model(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and bool(_MODEL.search(node.value))


@pattern("py-device-name", kind="other", language="python", rank=60)
def find(file: PythonFile) -> Iterator[Draft]:
    """Every comparison of a device's name with that of a GPU."""
    for node, scope, unit in file.walk(_TEXT, ast.Compare, ast.Call):
        match node:
            case ast.Compare(left=left, comparators=[right]) if (_is_model(left) and _about_name(right)) or (
                _is_model(right) and _about_name(left)
            ):
                pass
            case ast.Call(func=ast.Attribute(value=of, attr="startswith" | "endswith"), args=[first]) if _is_model(
                first
            ) and _about_name(of):
                pass
            case _:
                continue
        assert isinstance(node, ast.expr)
        span = file.module.span(node, node, unit.shift)
        text = " ".join(file.module.text(span).split())
        yield Draft(
            line=node.lineno + unit.shift,
            end_line=(node.end_lineno or node.lineno) + unit.shift,
            condition=Unknown(text),
            text=text,
            form=Form.PYTHON_EXPRESSION,
            span=span,
            symbol=scope.qualname,
            note="a GPU's name; the architectures that bear it are not in the source",
        )


SAMPLES = (
    Nothing("a kind of device", 'if device_name == "cpu":\n    pass\n'),
    Nothing("the name of a model", 'if "H2O" in model_name:\n    pass\n'),
    Finds("a GPU", 'name = get_device_name()\nif "H20" in get_device_name():\n    pass\n', {2: None}),
)
