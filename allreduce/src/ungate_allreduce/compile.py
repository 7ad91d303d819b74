"""Kernel sources to cubins: NVRTC through ctypes, cached by source, options, architecture and compiler.

No toolkit, header or host compiler is needed. A kernel takes 1 to 5 s the first time and a file read afterwards.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from .errors import CompileError

__all__ = ["Image", "Nvrtc", "cache_dir", "compile_kernel", "digest_sources", "libraries", "sources"]

KERNELS = Path(__file__).parent / "kernels"
MAGIC = b"ungate-allreduce-1\n"


@dataclass(frozen=True)
class Image:
    """A compiled kernel file: a cubin, or PTX where NVRTC is older than the GPU; and the compiler's report."""

    data: bytes
    log: str
    cached: bool
    ptx: bool = False

    @property
    def spills(self) -> bool:
        """Whether any kernel keeps values in local memory."""
        lines = [line for line in self.log.splitlines() if "stack frame" in line]
        return any(
            not line.strip().split("ptxas")[-1].strip(" .\t:").startswith("0 bytes stack frame") for line in lines
        )


def cache_dir() -> Path:
    """Folder of compiled kernels: UNGATE_ALLREDUCE_CACHE, else the user's cache folder."""
    named = os.environ.get("UNGATE_ALLREDUCE_CACHE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))) / "ungate-allreduce"


@cache
def sources() -> dict[str, str]:
    """Kernel files by name."""
    return {path.name: path.read_text() for path in sorted(KERNELS.iterdir()) if path.suffix in (".cu", ".cuh")}


@cache
def digest_sources() -> str:
    """sha256 over all kernel files: ranks with different ones must not talk to each other."""
    whole = hashlib.sha256()
    for name, text in sources().items():
        whole.update(f"{name}\0{len(text)}\0{text}".encode())
    return whole.hexdigest()


def libraries() -> Iterator[Path | str]:
    """Where NVRTC may be: UNGATE_ALLREDUCE_NVRTC, the wheels beside torch, a toolkit, the loader's path."""
    named = os.environ.get("UNGATE_ALLREDUCE_NVRTC")
    if named:
        yield Path(named)
    spec = importlib.util.find_spec("nvidia")
    for root in spec.submodule_search_locations or () if spec else ():
        for folder in ("cu13/lib", "cuda_nvrtc/lib", "cu14/lib"):
            yield from sorted((Path(root) / folder).glob("libnvrtc.so.[0-9]*"), reverse=True)
    for home in (os.environ.get("CUDA_HOME"), "/usr/local/cuda"):
        if home:
            yield from sorted((Path(home) / "lib64").glob("libnvrtc.so.[0-9]*"), reverse=True)
    yield from ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so")


class Nvrtc:
    """The run-time compiler's C interface."""

    def __init__(self) -> None:
        tried: list[str] = []
        for candidate in libraries():
            try:
                self.lib = ctypes.CDLL(str(candidate))
                break
            except OSError as error:
                tried.append(f"{candidate}: {error}")
        else:
            raise CompileError(
                "NVRTC was not found beside torch, in a CUDA toolkit or on the loader's path "
                f"(tried {len(tried)} places). Install it with: pip install nvidia-cuda-nvrtc"
            )
        major, minor = ctypes.c_int(), ctypes.c_int()
        self.check(self.lib.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)), "nvrtcVersion")
        self.version = f"{major.value}.{minor.value}"

    def check(self, code: int, call: str) -> None:
        """Raise CompileError unless ``code`` is success."""
        if code:
            self.lib.nvrtcGetErrorString.restype = ctypes.c_char_p
            raise CompileError(f"{call} failed with code {code}: {self.lib.nvrtcGetErrorString(code).decode()}.")

    def architectures(self) -> tuple[int, ...]:
        """Compute capabilities this compiler knows, as 10 * major + minor."""
        count = ctypes.c_int()
        self.check(self.lib.nvrtcGetNumSupportedArchs(ctypes.byref(count)), "nvrtcGetNumSupportedArchs")
        values = (ctypes.c_int * count.value)()
        self.check(self.lib.nvrtcGetSupportedArchs(values), "nvrtcGetSupportedArchs")
        return tuple(values)

    def _text(self, program: ctypes.c_void_p, what: str) -> bytes:
        size = ctypes.c_size_t()
        self.check(getattr(self.lib, f"nvrtcGet{what}Size")(program, ctypes.byref(size)), f"nvrtcGet{what}Size")
        buffer = ctypes.create_string_buffer(size.value)
        self.check(getattr(self.lib, f"nvrtcGet{what}")(program, buffer), f"nvrtcGet{what}")
        return buffer.raw

    def compile(self, file: str, options: list[str], *, ptx: bool) -> tuple[bytes, str]:
        """Compile one kernel file; the others are its headers. Returns the image and the log."""
        texts = sources()
        headers = [name for name in texts if name.endswith(".cuh")]
        bodies = (ctypes.c_char_p * len(headers))(*(texts[name].encode() for name in headers))
        names = (ctypes.c_char_p * len(headers))(*(name.encode() for name in headers))
        program = ctypes.c_void_p()
        created = self.lib.nvrtcCreateProgram(
            ctypes.byref(program), texts[file].encode(), file.encode(), len(headers), bodies, names
        )
        self.check(created, "nvrtcCreateProgram")
        try:
            flags = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
            code = self.lib.nvrtcCompileProgram(program, len(options), flags)
            log = self._text(program, "ProgramLog").rstrip(b"\0").decode(errors="replace")
            if code:
                raise CompileError(f"NVRTC {self.version} rejected {file} with {' '.join(options)}:\n{log}")
            return self._text(program, "PTX" if ptx else "CUBIN"), log
        finally:
            self.lib.nvrtcDestroyProgram(ctypes.byref(program))


@cache
def nvrtc() -> Nvrtc:
    """The compiler, loaded once."""
    return Nvrtc()


def compile_kernel(file: str, arch: str, defines: Mapping[str, int]) -> Image:
    """Compile ``file`` for ``arch`` (``"90"``, ``"120a"``) with ``defines``, or read it from the cache.

    Where the compiler is older than the GPU, PTX of its newest architecture is returned for the driver to compile.
    Raises CompileError with the compiler's log.
    """
    compiler = nvrtc()
    number = int(arch.rstrip("af"))
    known = compiler.architectures()
    ptx = number not in known
    if ptx and number < max(known):
        raise CompileError(f"NVRTC {compiler.version} does not know sm_{arch}; it knows {', '.join(map(str, known))}.")
    target = f"compute_{max(known)}" if ptx else f"sm_{arch}"
    options = [f"--gpu-architecture={target}", "--std=c++17", "--fmad=false", "--ptxas-options=-v"]
    options += [f"-D{name}={value}" for name, value in sorted(defines.items())]
    key = hashlib.sha256("\0".join([compiler.version, digest_sources(), file, *options]).encode()).hexdigest()
    path = cache_dir() / f"{file.removesuffix('.cu')}-{arch}-{key[:32]}"
    found = _read(path)
    if found is not None:
        return Image(found[0], found[1], cached=True, ptx=ptx)
    data, log = compiler.compile(file, options, ptx=ptx)
    _write(path, data, log)
    return Image(data, log, cached=False, ptx=ptx)


def _read(path: Path) -> tuple[bytes, str] | None:
    """A cached image, or None when it is missing or does not match its own checksum."""
    try:
        whole = path.read_bytes()
    except OSError:
        return None
    head = len(MAGIC)
    body = whole[head + 32 :]
    if whole[:head] != MAGIC or hashlib.sha256(body).digest() != whole[head : head + 32]:
        return None
    size = int.from_bytes(body[:8], "little")
    return body[8 : 8 + size], body[8 + size :].decode()


def _write(path: Path, data: bytes, log: str) -> None:
    body = len(data).to_bytes(8, "little") + data + log.encode()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as handle:
            handle.write(MAGIC + hashlib.sha256(body).digest() + body)
        Path(handle.name).replace(path)
    except OSError:
        # A read-only cache costs a compilation each start and nothing else.
        return
