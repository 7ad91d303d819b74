"""SGLang's ``load_jit``, worked out from its Python without importing it (importing it needs torch and a GPU).

    def _jit_kvcache_module(k_row_bytes: int, …) -> Module:
        args = make_cpp_args(k_row_bytes, …, is_arch_support_pdl())
        return load_jit("kvcache", *args, cuda_files=["elementwise/kvcache.cuh"],
                        cuda_wrappers=[("store_cache", f"StoreKVCacheKernel<{args}>::run")])

The function is followed with the recipe's values for its parameters, through ``load_jit`` down to the text of the
``build.ninja`` that it would write, or in older releases down to ``tvm_ffi.cpp.load_inline``, which is followed in
apache-tvm-ffi's own file. Sources, flags and target are read off that text.
"""

from __future__ import annotations

import ast
import functools
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ungate.build import machine
from ungate.build.descriptions import Wanted
from ungate.build.following import File, Foreign, Function, Record, Text, Unknown
from ungate.build.handing import handed
from ungate.build.unit import Generated, Module
from ungate.errors import Refusal
from ungate.host.packages import Package

__all__ = ["describe"]

_ENVIRONMENT = "sglang.srt.environ"
_FFI = "tvm_ffi.cpp.extension"


class _Written(Exception):
    """Caught where the build's text is ready: what is left would look into a cache and run the compiler."""

    def __init__(self, name: str, text: str, units: tuple[Generated, ...], sources: tuple[Path, ...]) -> None:
        self.name, self.text, self.units, self.sources = name, text, units, sources


def describe(wanted: Wanted) -> Module | None:
    """The module that the function ``sglang.…:name`` loads; None where it calls no ``load_jit``."""
    if not wanted.dotted.startswith("sglang.") or not wanted.function:
        return None
    headers = wanted.companion("apache-tvm-ffi")
    text = _text(wanted, headers)
    try:
        file = text.file(wanted.dotted)
        function = file.name(wanted.function) if file and file.has(wanted.function) else None
    except Unknown as unknown:
        raise Refusal(f"{unknown}.", f"Look at it: python -m py_compile {wanted.package.root}") from None
    if file is None or not isinstance(function, Function):
        raise Refusal(
            f"{wanted.package.name} {wanted.package.version} has no function '{wanted.function}' in {wanted.dotted}.",
            f"See which there are: grep -rn 'load_jit(' {wanted.package.root / 'sglang'}",
        )
    call = next((node for node in ast.walk(function.node) if _called(node) == "load_jit"), None)
    if not isinstance(call, ast.Call):
        return None
    written = _follow(wanted, file)
    flags, includes, suffix = _flags(written.text, wanted)
    return Module(
        name=written.name,
        package=wanted.package.name,
        version=wanted.package.version,
        file=file.path.relative_to(wanted.package.root).as_posix(),
        line=call.lineno,
        sources=written.sources,
        includes=includes,
        flags=flags,
        suffix=suffix,
        generated=written.units,
    )


def _called(node: ast.AST) -> str:
    if not isinstance(node, ast.Call):
        return ""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _follow(wanted: Wanted, file: File) -> _Written:
    written = handed(file, wanted, _Written)
    if written is None:
        raise Refusal(
            f"'{wanted.function}' in {wanted.dotted} returns before it compiles anything.",
            f"Give the function's parameters in the recipe: [build_arguments] of {wanted.function}",
        )
    return written


def _text(wanted: Wanted, headers: Package) -> Text:
    def package(name: str) -> Package | None:
        top = name.partition(".")[0]
        if top in wanted.package.tops:
            return wanted.package
        known = {"flashinfer": "flashinfer-python", "tvm_ffi": "apache-tvm-ffi", "deep_gemm": "sgl-deep-gemm"}
        distribution = {"nvidia.mathdx": "nvidia-mathdx"}.get(name, known.get(top, top))
        return headers if distribution == headers.name else wanted.neighbour(distribution)

    folder = headers.root / "tvm_ffi"
    facts = machine.facts(wanted.target, package) | {
        "tvm_ffi.libinfo.find_include_path": lambda: str(folder / "include"),
        "tvm_ffi.libinfo.find_dlpack_include_path": lambda: str(folder / "3rdparty" / "dlpack" / "include"),
        "tvm_ffi.libinfo.find_libtvm_ffi": lambda: str(folder / "lib" / "libtvm_ffi.so"),
    }
    if (flashinfer := wanted.neighbour("flashinfer-python")) is not None:
        facts["flashinfer.__file__"] = str(flashinfer.root / "flashinfer" / "__init__.py")
    instead: dict[str, Any] = machine.functions() | {"compute_build_key": _keyed}
    text = Text((wanted.package.root, headers.root), facts, instead)
    text.facts["tvm_ffi.cpp.load_inline"] = functools.partial(_inline, text)
    instead_of_switches = Foreign(lambda name: Foreign(lambda _: _default(text, name)))
    text.instead |= {"envs": instead_of_switches, "REGISTERED_DEPENDENCIES": _Registered(text)}
    return text


def _default(text: Text, name: str) -> Callable[[], Any]:
    """The value of one of SGLang's environment variables where nobody sets it."""
    file = text.file(_ENVIRONMENT)
    for node in ast.walk(file.tree) if file else ():
        match node:
            case ast.Assign(targets=[ast.Name(id=own)], value=ast.Call(args=[ast.Constant(value=value), *_])):
                if own == name:
                    return lambda: value
    raise Unknown(f"the default of {name} is not written down in {_ENVIRONMENT}")


class _Registered(dict[str, Any]):
    """Names of header packages and the functions that SGLang registers for them with a decorator."""

    def __init__(self, text: Text) -> None:
        super().__init__()
        for dotted in ("sglang.kernels.jit.utils.deps", "sglang.jit_kernel.utils"):
            file = text.file(dotted)
            for node in file.tree.body if file else ():
                for mark in node.decorator_list if isinstance(node, ast.FunctionDef) else ():
                    match mark:
                        case ast.Call(func=ast.Name(id="register_dependency"), args=[ast.Constant(value=str(name))]):
                            self[name] = self._caller(file, node)

    @staticmethod
    def _caller(file: File | None, node: ast.stmt) -> Callable[[], Any]:
        assert file is not None and isinstance(node, ast.FunctionDef)
        return lambda: file.call(node.name, {})


def _keyed(spec: Record, *, build_file: str) -> Any:
    """``compute_build_key``: here everything that is compiled is decided, and nothing has been looked up yet."""
    from ungate.build.following.frame import Frame

    frame = Frame(spec.kind.file, {"spec": spec})
    units = frame.value(ast.parse("spec.translation_units()", mode="eval").body)
    name = frame.value(ast.parse("spec.module_name", mode="eval").body)
    device = [unit.values for unit in units if unit.values["is_cuda"]]
    raise _Written(
        name,
        build_file,
        tuple(Generated(each["filename"], each["source"]) for each in device if each["source"] is not None),
        tuple(Path(each["filename"]) for each in device if each["source"] is None),
    )


def _inline(text: Text, name: str, **named: Any) -> Any:
    """``tvm_ffi.cpp.load_inline``: the text of the unit and of the ``build.ninja`` that apache-tvm-ffi writes."""
    file = text.file(_FFI)
    if file is None:
        raise Unknown("apache-tvm-ffi has no cpp/extension.py")
    source = named.get("cuda_sources") or []
    body = source if isinstance(source, str) else "\n".join(source)
    unit = file.call("_decorate_with_tvm_ffi", {"source": body, "functions": {}})
    asked = ("extra_cflags", "extra_cuda_cflags", "extra_ldflags", "extra_include_paths")
    given = {key: named.get(key) or [] for key in asked}
    written = file.call("_generate_ninja_build", {"name": name, "sources": ["cuda.cu"], "backend": "cuda"} | given)
    raise _Written(name, written, (Generated("cuda.cu", unit),) if body else (), ())


def _flags(text: str, wanted: Wanted) -> tuple[tuple[str, ...], tuple[Path, ...], str]:
    """Flags and header folders of the device compiler in a ``build.ninja``, and the suffix of the target there."""
    line = re.search(r"^(?:cudaflags|cuda_cflags) = (.*)$", text, re.MULTILINE)
    words = shlex.split(line[1].replace("$:", ":").replace("$$", "$")) if line else []
    flags, includes, suffix = list[str](), list[Path](), ""
    for word in words:
        if word.startswith("-I"):
            includes.append(Path(word[2:]))
        elif found := re.fullmatch(r"-gencode=arch=compute_(\d+)([af]?),code=\S+", word):
            suffix = found[2] if int(found[1]) == wanted.target.number else suffix
        else:
            flags.append(word)
    return tuple(flags), tuple(dict.fromkeys(includes)), suffix
