"""A list of majors, capabilities or arch names is handed to something that picks by it, or is looked a device up in.

::

    nvcc_flags = context.get_nvcc_flags_list(supported_major_versions=[9, 10])

    jit/comm.py:61  gen_trtllm_comm_module  passes sm_90 sm_100 sm_103 sm_107

The keyword (or the constant's name) says that the numbers are capabilities: major version, capability, arch, sm.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ungate.model import KNOWN_ARCHS, Form
from ungate.scan.draft import Draft, Finds, Nothing
from ungate.scan.patterns import pattern
from ungate.source.condition import Known
from ungate.source.matcher import matcher
from ungate.source.python.capability import archs_of_name
from ungate.source.python.file import PythonFile
from ungate.source.python.module import Unit
from ungate.source.python.scopes import Scope

__all__ = ["SAMPLES", "find", "members"]

_MEANS = re.compile(
    r"(?:^|_)(?:majors?|major_versions?|capabilit(?:y|ies)|archs?|architectures|ccs?|sms?|sm_versions?|sm_archs?)"
    r"(?:_list|_versions?|_majors?|_set|_ids?)?$",
    re.I,
)
_LISTS = re.compile(r"majors?|versions|capabilities|archs|ccs|sms|_list$|_set$", re.I)
_DEMANDS = re.compile(r"support|requir", re.I)
_CAPABILITIES = frozenset({*KNOWN_ARCHS, *(arch // 10 for arch in KNOWN_ARCHS), 60, 61, 70, 72})
_NAME = re.compile(r"(?:sm|compute)_?[0-9]{2,3}[af]?")
_TEXT = matcher(
    r"(?:majors?|versions?|capabilit(?:y|ies)|archs?|architectures|ccs?|sms?|_list|_set|_ids)"
    r"[\"']?[ \t]*(?::[^=\n]*)?[=:]\s*[\[({]"
    r"|[\[({]\s*(?:[\"']|(?:[a-z_]\w*\.)+)(?:sm|compute)_?[0-9]{2,3}[af]?[\"']?\s*[,)\]}]"
    r"|[a-z]\w*[ \t]*(?::[^=\n]*)?=[ \t]*(?:frozenset\(|set\(|tuple\()?[\[({][\s(]*[0-9]{1,3}[ \t]*[,\])}]",
    fold=True,
)


def members(node: ast.expr, *, majors: bool) -> tuple[Form, frozenset[int]] | None:
    """The archs that a display of numbers, tuples or names lists, and its form; None when it lists something else."""
    if not isinstance(node, ast.List | ast.Tuple | ast.Set) or not node.elts:
        return None
    found: set[int] = set()
    forms: set[Form] = set()
    for element in node.elts:
        match element:
            case ast.Constant(value=int() as number) if not isinstance(number, bool):
                if 5 <= number <= 13 and majors:
                    found |= {arch for arch in KNOWN_ARCHS if arch // 10 == number}
                elif 50 <= number <= 130:
                    found |= {number} & set(KNOWN_ARCHS)
                else:
                    return None
                forms.add(Form.INT_LIST)
            case ast.Tuple(elts=[ast.Constant(value=int() as major), ast.Constant(value=int() as minor)]):
                if not (5 <= major <= 13 and 0 <= minor <= 9):
                    return None
                found |= {major * 10 + minor} & set(KNOWN_ARCHS)
                forms.add(Form.TUPLE_LIST)
            case ast.Constant(value=str() as text):
                archs = archs_of_name(text, bare=True)
                if archs is None:
                    return None
                found |= archs
                forms.add(Form.STRING_LIST)
            case ast.Attribute(attr=name) if _NAME.fullmatch(name):
                found |= archs_of_name(name) or frozenset()
                forms.add(Form.FIXED)  # members of an enumeration: another one has to be written in its terms
            case _:
                return None
    return (forms.pop(), frozenset(found)) if len(forms) == 1 else None


def _draft(file: PythonFile, node: ast.expr, unit: Unit, scope: Scope, name: str, role: str) -> Iterator[Draft]:
    node = _display(node)
    listed = members(node, majors=True)
    if (pair := _pair(node)) is not None and not _LISTS.search(name):
        listed = (Form.FIXED, pair) if pair and _DEMANDS.search(name) else None
    if listed is None:
        return
    form, archs = listed
    span = file.module.span(node, node, unit.shift)
    text = " ".join(file.module.text(span).split())
    yield Draft(
        line=node.lineno + unit.shift,
        end_line=(node.end_lineno or node.lineno) + unit.shift,
        condition=Known(archs, text),
        text=f"{name} in {text}",
        role=role,
        form=form,
        span=span,
        symbol=scope.qualname,
        names=(name,),
    )


def _pair(node: ast.expr) -> frozenset[int] | None:
    """The arch of a tuple that may be one capability: ``(8, 9)`` is 8.9, unless its name says that it lists."""
    match node:
        case ast.Tuple(elts=[ast.Constant(value=int() as major), ast.Constant(value=int() as minor)]) if minor <= 9:
            return frozenset({major * 10 + minor} & set(KNOWN_ARCHS))
        case _:
            return None


def _display(node: ast.expr) -> ast.expr:
    """The display in ``frozenset({90, 100})`` and its like; any other expression as it is."""
    match node:
        case ast.Call(func=ast.Name(id="frozenset" | "set" | "tuple" | "list"), args=[inner], keywords=[]):
            return inner
        case _:
            return node


def _capabilities_only(node: ast.expr) -> bool:
    """Whether every element is a number or a pair that a capability has, and none a size by the look of it."""
    listed = members(node, majors=True)
    return (
        listed is not None
        and bool(listed[1])
        and isinstance(node, ast.List | ast.Tuple | ast.Set)
        and all(not isinstance(each, ast.Constant) or each.value in _CAPABILITIES for each in node.elts)
    )


def _names_only(node: ast.expr) -> bool:
    """Whether every element is the unmistakable name of an arch (``sm_90a``)."""
    node = _display(node)
    return isinstance(node, ast.List | ast.Tuple | ast.Set) and all(
        (isinstance(each, ast.Constant) and isinstance(each.value, str) and _NAME.fullmatch(each.value))
        or (isinstance(each, ast.Attribute) and _NAME.fullmatch(each.attr))
        for each in node.elts
    )


@pattern("py-version-list", kind="python-version-list", language="python", rank=30)
def find(file: PythonFile) -> Iterator[Draft]:
    """Every list under a name for capabilities, passed or assigned, or that a capability is looked up in."""
    file.questions  # noqa: B018 - asking them is what finds the lists that are looked up
    for node, scope, unit in file.walk(_TEXT, ast.keyword, ast.Assign, ast.AnnAssign, ast.Dict):
        match node:
            case ast.keyword(arg=str() as name, value=value) if _MEANS.search(name):
                yield from _draft(file, value, unit, scope, name, "test")
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if _MEANS.search(name):
                yield from _draft(file, value, unit, scope, name, "define")
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value) if _MEANS.search(name):
                yield from _draft(file, value, unit, scope, name, "define")
            case ast.keyword(arg=str() as name, value=value) if _names_only(value):
                yield from _draft(file, value, unit, scope, name, "test")
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if _names_only(value):
                yield from _draft(file, value, unit, scope, name, "define")
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ) if _capabilities_only(_display(value)) and file.looks_up(name):
                yield from _draft(file, value, unit, scope, name, "define")
            case ast.Dict(keys=keys, values=values):
                for key, value in zip(keys, values, strict=True):
                    name = str(key.value) if isinstance(key, ast.Constant) else ""
                    if name and (_MEANS.search(name) or _names_only(value)):
                        yield from _draft(file, value, unit, scope, name, "define")
            case _:
                pass


SAMPLES = (
    Nothing("model architectures", 'register(architectures=["LlamaForCausalLM"])\n'),
    Nothing("sizes", "f(sm_sizes=[64, 128], block=[90, 100])\n"),
    Nothing("one capability", "MIN_CC = (8, 9)\nrun(capability=(8, 9))\n"),
    Nothing("sizes under a name that tells nothing", "class A:\n    SUPPORTED = [64, 80, 96]\n"),
    Finds(
        "members of an enumeration",
        "BlackwellArch = {Arch.sm_100a, Arch.sm_103a}\nf([\n    Arch.sm_90])\n",
        {1: (100, 103)},
    ),
    Finds("the one capability that is supported", "SUPPORTED_CC = (10, 7)\nMIN_CC = (9, 0)\n", {1: (107,)}),
    Finds("a frozen set", "_SUPPORTED_ARCHS = frozenset({90, 100})\n", {1: (90, 100)}),
    Finds(
        "numbers that a capability is looked up in",
        "class A:\n    SUPPORTED = [90, 100]\n\n    def ok(self):\n"
        "        major, minor = torch.cuda.get_device_capability()\n"
        "        return major * 10 + minor in self.SUPPORTED\n",
        {2: (90, 100)},
    ),
    Finds(
        "majors that a build is for",
        "def gen():\n    return flags(\n        supported_major_versions=[9, 10],\n    )\n",
        {3: (90, 100, 103, 107)},
        {3: "[9, 10]"},
    ),
)
