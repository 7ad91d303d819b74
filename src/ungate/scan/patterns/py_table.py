"""A table keyed by capability or by the name of an architecture: what is no key is not served.

::

    _TMEM_MAX_ALLOC_COLUMNS_MAP = {"sm_100": 512, "sm_103": 512, "sm_120": 512}

    compat.py:29  passes sm_100 sm_103 sm_120

Keys are ``"sm_90"``, ``"9.0"``, ``(9, 0)`` or, where the table's name speaks of capabilities or a capability is looked
up in it, on the spot, in this file or in another, ``90`` or a major.
A table whose entries are themselves tests is left to its entries.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from ungate.model import Form
from ungate.scan.draft import Draft, Finds, Nothing
from ungate.scan.patterns import pattern
from ungate.scan.patterns.py_version_list import members
from ungate.source.condition import Known
from ungate.source.matcher import matcher
from ungate.source.python.file import PythonFile

__all__ = ["SAMPLES", "find"]

_TEXT = matcher(
    r"""\(["'](?:(?:sm|SM|compute)_?)?[0-9]{2,3}[afAF]?["'],|"""
    r"""["'](?:(?:sm|SM|compute)_?)?[0-9]{2,3}[afAF]?["'][ \t]*:|["'][0-9]{1,2}\.[0-9]["'][ \t]*:|\([0-9]{1,2},"""
    r"""[ ]*[0-9]\)[ \t]*:|[0-9]{1,3}[ \t]*:"""
)
_MEANS = re.compile(r"capabilit|(?:^|_)(?:archs?|ccs?|sms?|sm_version|major)(?:_|$)", re.I)


def _first(keys: Sequence[ast.expr | None]) -> tuple[Form, frozenset[int]] | None:
    """The archs by which a table is keyed together with something else: ``("90a", torch.float)``."""
    names: list[ast.expr] = []
    for key in keys:
        match key:
            case ast.Tuple(elts=[ast.Constant(value=str()) as name, _, *_]):
                names.append(name)
            case _:
                return None
    return members(ast.List(names, ast.Load()), majors=False)


@pattern("py-table", kind="dispatch-table", language="python", rank=35)
def find(file: PythonFile) -> Iterator[Draft]:
    """Every dictionary display whose keys are all capabilities or arch names."""
    named: dict[int, str] = {}
    on_the_spot: set[int] = set()
    file.questions  # noqa: B018 - asking them is what finds the tables that are looked up
    for node, scope, unit in file.walk(
        _TEXT, ast.Assign, ast.AnnAssign, ast.keyword, ast.Dict, ast.Call, ast.Subscript
    ):
        match node:
            case ast.Assign(targets=[ast.Name(id=name) | ast.Attribute(attr=name)], value=ast.Dict() as value):
                named[id(value)] = name
            case ast.AnnAssign(target=ast.Name(id=name) | ast.Attribute(attr=name), value=ast.Dict() as value):
                named[id(value)] = name
            case ast.keyword(arg=str() as name, value=ast.Dict() as value):
                named[id(value)] = name
            case (
                ast.Call(func=ast.Attribute(value=ast.Dict() as value, attr="get"), args=[index, *_])
                | ast.Subscript(value=ast.Dict() as value, slice=index)
            ) if file.differs(index, scope, unit):
                on_the_spot.add(id(value))
            case ast.Dict(keys=keys, values=values) if keys:
                listed = members(ast.List([key for key in keys if key is not None], ast.Load()), majors=True)
                if listed is None:
                    listed = _first(keys)
                if listed is None or any(key is None for key in keys):
                    continue
                form, archs = listed
                name = named.get(id(node), "")
                meant = id(node) in on_the_spot or _MEANS.search(name) is not None
                if form is Form.INT_LIST and not meant and not (archs and file.looks_up(name)):
                    continue
                if (
                    form is Form.STRING_LIST
                    and any(isinstance(key, ast.Constant) and str(key.value).isdigit() for key in keys)
                    and not (meant or file.looks_up(name))
                ):
                    continue
                if any(file.is_test(value, scope, unit) for value in values):
                    continue
                span = file.module.span(node, node, unit.shift)
                text = ", ".join(ast.unparse(key) for key in keys if key is not None)
                yield Draft(
                    line=node.lineno + unit.shift,
                    end_line=(node.end_lineno or node.lineno) + unit.shift,
                    condition=Known(archs, text),
                    text=f"{name} keyed by {text}".strip(),
                    role="define",
                    form=Form.TABLE,
                    span=span,
                    symbol=scope.qualname,
                    names=(name,) if name else (),
                )
            case _:
                pass


SAMPLES = (
    Nothing("keys that are sizes", "TABLE = {64: 1, 90: 2}\n"),
    Nothing("sizes on the spot", "def f(head_dim, capability):\n    return {9: 32, 10: 16}.get(head_dim, 0)\n"),
    Nothing("versions of a package", 'FEATURES = {"2.0": 1, "2.1": 2}\n'),
    Nothing(
        "entries that are tests", 'def f():\n    return {"sm90": has_sm90(), "sm100": has_sm100()}\nhas_sm90 = 1\n'
    ),
    Finds(
        "majors that are looked up on the spot",
        "import torch\n\ndef f(x, t):\n    major = torch.cuda.get_device_capability(x)[0]\n"
        "    most = {9: 32, 10: 16}.get(major, 0)\n    return t <= most\n",
        {5: (90, 100, 103, 107)},
    ),
    Finds(
        "majors that are looked up",
        "import torch\n_SIZES = {9: {2: 64}, 10: {2: 64}}\n\ndef f(n):\n"
        "    sizes = _SIZES.get(torch.cuda.get_device_capability()[0])\n    return sizes is not None and n in sizes\n",
        {2: (90, 100, 103, 107)},
    ),
    Finds(
        "numbers that are looked up through an attribute",
        "class A:\n    SIZES = {80: 1, 90: 2}\n\n    def f(self, device):\n"
        "        cap = device.get_device_capability()\n        return self.SIZES[cap[0] * 10 + cap[1]]\n",
        {2: (80, 90)},
    ),
    Finds("names of archs", 'SIZES = {"sm_100": 512, "sm_103": 512}\n', {1: (100, 103)}),
    Finds(
        "bare numbers in quotes",
        'CONFIGS = {"80": (128, 2), "89": (128, 4)}\n\ndef f(target_arch):\n    return CONFIGS.get(target_arch)\n',
        {1: (80, 89)},
    ),
    Finds("versions of the capability", 'SIZES = {\n    "9.0": 1,\n    "10.0": 2,\n}\n', {1: (90, 100)}),
    Finds(
        "an arch and something else",
        'def recipe(dtype):\n    return {\n        ("90a", float): 1,\n        ("100a", float): 2,\n'
        '        ("100a", int): 3,\n'
        "    }[(get_device_arch(), dtype)]\n",
        {2: (90, 100)},
    ),
    Finds("tuples", "SIZES = {(9, 0): 1, (10, 3): 2}\n", {1: (90, 103)}),
)
