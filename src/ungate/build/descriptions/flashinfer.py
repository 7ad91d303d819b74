"""FlashInfer's JitSpec, read from its Python without importing it (importing it needs torch).

    def gen_trtllm_comm_module() -> JitSpec:
        return gen_jit_spec("trtllm_comm", [jit_env.FLASHINFER_CSRC_DIR / "trtllm_allreduce.cu", …], …)

Followed are: the folders of ``jit/env.py``, the source list and flags of the call, the flags that ``gen_jit_spec``,
``build_cuda_cflags`` and ``COMMON_NVCC_FLAGS`` always add, and the header folders of ``get_system_includes``.
"""

from __future__ import annotations

import ast
import re
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from ungate.build import gencode, machine
from ungate.build.descriptions import Companion, Wanted
from ungate.build.following import Raised, Record, Text, Unknown
from ungate.build.unit import Module
from ungate.errors import Refusal
from ungate.host.packages import Package

__all__ = ["describe"]

_DEBUGGING = ("debug", "environ", "lineinfo")


def describe(wanted: Wanted) -> Module | None:
    """The module that the function ``flashinfer.…:name`` describes; None for another package."""
    package, dotted, function = wanted.package, wanted.dotted, wanted.function
    if not dotted.startswith("flashinfer.") or not function:
        return None
    base = package.root / "flashinfer"
    file = package.root / (dotted.replace(".", "/") + ".py")
    tree, env = _parsed(file), _Folders(base)
    maker = _function(tree, function)
    call = next((node for node in ast.walk(maker or tree) if _called(node) == "gen_jit_spec"), None)
    if maker is None or not isinstance(call, ast.Call):
        raise Refusal(
            f"{file} has no function '{function}' that calls gen_jit_spec.",
            f"See which there are: grep -n 'def ' {file}",
        )
    scope = _assignments(maker)
    arguments = dict(zip(("name", "sources"), call.args, strict=False)) | {
        keyword.arg: keyword.value for keyword in call.keywords if keyword.arg
    }
    notes: list[str] = []
    name = arguments.get("name")
    sources = _paths(arguments.get("sources"), scope, env, notes)
    given, listed = gencode.apart(tuple(_strings(arguments.get("extra_cuda_cflags"), scope, notes, wanted)))
    if (other := gencode.note(listed, wanted.target)) and not _asks(arguments.get("extra_cuda_cflags"), scope):
        notes.append(other)
    own = given
    extra = _paths(arguments.get("extra_include_paths"), scope, env, notes)
    if not sources:
        raise Refusal(
            f"The sources of '{function}' in {file}:{call.lineno} are made while it runs and not named in its text.",
            "Build it where FlashInfer can be imported: ungate run RECIPE --until build --python PATH",
        )
    named = name.value if isinstance(name, ast.Constant) and isinstance(name.value, str) else function
    return Module(
        name=named,
        package=package.name,
        version=package.version,
        file=file.relative_to(package.root).as_posix(),
        line=call.lineno,
        sources=sources,
        includes=(*extra, *_includes(base, env, wanted.companion)),
        flags=_joined(_always(base), own),
        prebuilt=_prebuilt(named, base, wanted.neighbour("flashinfer-jit-cache")),
        suffix=_suffix(wanted),
        notes=tuple(notes),
    )


def _suffix(wanted: Wanted) -> str:
    """What ``CompilationContext`` makes of the GPU: sm_120 is sm_120a to 0.6.3, and sm_120f to 0.7.4 and nvcc 12.9."""
    if wanted.target.suffix:
        return ""
    text = Text((wanted.package.root,), machine.facts(wanted.target, lambda _: None), machine.functions())
    try:
        context = text.file("flashinfer.compilation_context")
        made = context.call("CompilationContext", {}) if context else None
        archs: set[tuple[int, str]] = made.values["TARGET_CUDA_ARCHS"] if isinstance(made, Record) else set()
        ((_, minor),) = archs
    except (Unknown, Raised, KeyError, ValueError) as reason:
        raise Refusal(
            f"What {wanted.package.name} {wanted.package.version} compiles for on {wanted.target} cannot be told from "
            f"its compilation_context.py: {reason}.",
            "Name the target with its suffix: --target sm_120a",
        ) from None
    return str(minor).lstrip("0123456789")


def _prebuilt(name: str, base: Path, jit_cache: Package | None) -> tuple[Path, ...]:
    """``JitSpec.aot_path``: a library of flashinfer-jit-cache, else one below ``data/aot``, goes before compiling."""
    places = [base / "data" / "aot"] if jit_cache is None else [jit_cache.root / "flashinfer_jit_cache"]
    return tuple(path for place in places for path in sorted(place.glob(f"**/{name}/{name}.so")))


def _joined(always: Iterable[str], own: Sequence[str]) -> tuple[str, ...]:
    """``gen_jit_spec`` leaves its own language standard away where the module names one."""
    named = any(flag.startswith("-std=") for flag in own)
    return tuple(dict.fromkeys((*(flag for flag in always if not (named and flag.startswith("-std="))), *own)))


def _parsed(file: Path) -> ast.Module:
    try:
        return ast.parse(file.read_text(encoding="utf-8"), str(file))
    except OSError as error:
        raise Refusal(f"{file} cannot be read: {error.strerror}.", f"Look for it: ls {file.parent}") from None
    except (SyntaxError, UnicodeDecodeError) as error:
        raise Refusal(f"{file} is not readable Python: {error}.", f"Look at it: python -m py_compile {file}") from None


def _function(tree: ast.AST, name: str) -> ast.FunctionDef | None:
    found = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == name)
    return next(found, None)


def _called(node: ast.AST) -> str:
    if not isinstance(node, ast.Call):
        return ""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _assignments(tree: ast.AST) -> dict[str, ast.expr]:
    """Names that are assigned exactly once, with what they are given."""
    found: dict[str, list[ast.expr]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    found.setdefault(target.id, []).append(node.value)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
            found.setdefault(node.target.id, []).append(node.value)
    return {name: values[0] for name, values in found.items() if len(values) == 1}


class _Folders:
    """The folders that ``jit/env.py`` names, worked out from its assignments."""

    def __init__(self, base: Path) -> None:
        self._base = base
        self._named = _assignments(_parsed(base / "jit" / "env.py"))

    def paths(self, node: ast.expr | None) -> tuple[Path, ...]:
        """What an expression of folders comes to: none where it depends on the machine it runs on."""
        match node:
            case ast.Name(id="_package_root"):
                return (self._base,)
            case ast.Name(id=name) | ast.Attribute(attr=name) if name in self._named:
                return self.paths(self._named[name])
            case ast.BinOp(left=left, op=ast.Div(), right=ast.Constant(value=str(part))):
                return tuple(folder / part for folder in self.paths(left))
            case ast.List(elts=items) | ast.Tuple(elts=items):
                return tuple(path for item in items for path in self.paths(item))
            case ast.Call(func=ast.Attribute(value=inner, attr="resolve" | "absolute")):
                return self.paths(inner)
            case ast.Call(args=[inner]) if _called(node) == "str":
                return self.paths(inner)
            case ast.ListComp(generators=[ast.comprehension(iter=inner)]):
                return self.paths(inner)
            case _:
                return ()


def _paths(node: ast.expr | None, scope: dict[str, ast.expr], env: _Folders, notes: list[str]) -> tuple[Path, ...]:
    if node is None or (isinstance(node, ast.Constant) and node.value is None):
        return ()
    if isinstance(node, ast.Name) and node.id in scope:
        return _paths(scope[node.id], scope, env, notes)
    items = node.elts if isinstance(node, ast.List | ast.Tuple) else [node]
    found: list[Path] = []
    for item in items:
        there = env.paths(item)
        found += there
        if not there:
            notes.append(f"'{ast.unparse(item)}' could not be followed")
    return tuple(found)


def _asks(node: ast.expr | None, scope: dict[str, ast.expr]) -> bool:
    """Whether the flags hold those of the GPUs that are there, beside any that the module names itself."""
    text = ast.unparse(node) if node is not None else ""
    named = [scope[name] for name in re.findall(r"\w+", text) if name in scope]
    return any("get_nvcc_flags_list" in ast.unparse(each) for each in (*([node] if node else []), *named))


def _elsewhere(name: str, wanted: Wanted) -> list[str] | None:
    """Flags that another file of FlashInfer names (``sm89_nvcc_flags`` of jit/core.py); None where that is not told."""
    text = Text((wanted.package.root,), machine.facts(wanted.target, lambda _: None), machine.functions())
    try:
        file = text.file(wanted.dotted)
        value = file.name(name) if file else None
    except (Unknown, Raised):
        return None
    return [str(flag) for flag in value] if isinstance(value, list | tuple) else None


def _strings(
    node: ast.expr | None, scope: dict[str, ast.expr], notes: list[str], wanted: Wanted | None = None
) -> Iterator[str]:
    """The constant flags of an expression. The architecture flags are the target's and come from elsewhere."""
    match node:
        case None | ast.Constant(value=None):
            return
        case ast.Constant(value=str(text)):
            yield text
        case ast.List(elts=items) | ast.Tuple(elts=items):
            for item in items:
                yield from _strings(item, scope, notes, wanted)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            yield from _strings(left, scope, notes, wanted)
            yield from _strings(right, scope, notes, wanted)
        case ast.Name(id=name) if name in scope:
            yield from _strings(scope[name], scope, notes, wanted)
        case ast.Name(id=name) if wanted is not None and (flags := _elsewhere(name, wanted)) is not None:
            yield from flags
        case ast.Call() if _called(node) == "get_nvcc_flags_list":
            return
        case _:
            notes.append(f"the flags '{ast.unparse(node)}' could not be followed")


def _always(base: Path) -> Iterator[str]:
    """The flags every module gets."""
    core, extension = _parsed(base / "jit" / "core.py"), _parsed(base / "jit" / "cpp_ext.py")
    context = _parsed(base / "compilation_context.py")
    yield from _added(_function(core, "gen_jit_spec"), "cuda_cflags")
    yield from _added(_function(extension, "build_cuda_cflags"), "cuda_cflags")
    yield from _strings(_assignments(context).get("COMMON_NVCC_FLAGS"), {}, [])


def _added(function: ast.FunctionDef | None, variable: str) -> Iterator[str]:
    """Constant flags that a function puts into a list: not on its debugging branches, and not the host compiler's."""
    for statement in _lived(function.body if function else []):
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name == variable:
                yield from _flags(value)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value) if name == variable:
                yield from _flags(value)
            case ast.AugAssign(target=ast.Name(id=name), value=value) if name == variable:
                yield from _flags(value)
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name)), args=args)) if name == variable:
                for argument in args:
                    yield from _flags(argument)


def _lived(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements that run in a normal build: of an ``if`` about debugging or the environment, the other branch."""
    for statement in body:
        if not isinstance(statement, ast.If):
            yield statement
        elif any(word in ast.unparse(statement.test) for word in _DEBUGGING):
            yield from _lived(statement.orelse)
        elif "is not None" not in ast.unparse(statement.test):
            yield from _lived(statement.body)


def _flags(node: ast.expr) -> Iterator[str]:
    items = node.elts if isinstance(node, ast.List | ast.Tuple) else [node]
    for item in items:
        if isinstance(item, ast.Constant) and isinstance(item.value, str) and item.value.startswith("-"):
            yield item.value


def _includes(base: Path, env: _Folders, companion: Companion) -> tuple[Path, ...]:
    function = _function(_parsed(base / "jit" / "cpp_ext.py"), "get_system_includes")
    nodes = [node for node in ast.walk(function) if isinstance(node, ast.Attribute)] if function else []
    found: list[Path] = []
    for node in sorted(nodes, key=lambda node: (node.lineno, node.col_offset)):
        if isinstance(node.value, ast.Name) and node.value.id == "jit_env":
            found += env.paths(node)
    text = ast.unparse(function) if function else ""
    if "tvm_ffi" in text:
        headers = companion("apache-tvm-ffi").root / "tvm_ffi"
        found += [headers / "include", headers / "3rdparty" / "dlpack" / "include"]
    if "get_path('include')" in text:
        found.append(Path(sysconfig.get_path("include")))
    return tuple(dict.fromkeys(folder for folder in found if folder.is_dir()))
