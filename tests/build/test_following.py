"""What a package's function returns is worked out from its text; what is not known is never guessed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ungate.build.following import Dotted, Raised, Text, Unknown
from ungate.build.following.tolerant import run

CODE = """
from __future__ import annotations
import os
import torch
from pathlib import Path
from typing import TYPE_CHECKING, Union
from contextlib import contextmanager
from dataclasses import dataclass
from .names import NAMES, Listed as Args
if TYPE_CHECKING:
    from nowhere import Module

KINDS = Union[int, str]
HERE = Path(__file__).parent
_CHOSEN = None

@dataclass
class Arch:
    major: int
    minor: int
    suffix: str = ""

    @property
    def flag(self) -> str:
        return f"-DARCH={self.major * 100 + self.minor * 10}{self.suffix}"

    @staticmethod
    def of(major):
        return Arch(major, 0, suffix="a" if major >= 9 else "")

def _detect():
    global _CHOSEN
    try:
        major, minor = torch.cuda.get_device_capability(torch.cuda.current_device())
    except Exception:
        major, minor = 0, 0
    _CHOSEN = Arch(major, minor)

def flags(fast: bool = False, *, extra=(), **more):
    _detect()
    found = [_CHOSEN.flag, "-O3"] + list(extra)
    for name, on in (("fast", fast), ("slow", not fast)):
        if not on:
            continue
        found.append(f"--{name}")
    return [flag for flag in found if flag != "-O3"] + [f"{k}={v}" for k, v in more.items()]

def template(dtype, n):
    return f"Kernel<{Args([NAMES[dtype], str(n)])}>::run"

def closed():
    major, _ = torch.cuda.get_device_capability()
    if major not in (9, 10):
        raise RuntimeError(f"needs sm_90, got {major}")
    return Arch.of(major).flag

def nested(n):
    base = 2
    def inner(m):
        return base * m
    return inner(n)

@contextmanager
def pinned(major, *, suffix=None):
    global _CHOSEN
    before = _CHOSEN
    _CHOSEN = Arch(major, 0, suffix or "")
    try:
        yield
    finally:
        _CHOSEN = before

def inside():
    _detect()
    with pinned(10, suffix="f"):
        found = _CHOSEN.flag
    return found, _CHOSEN.flag

def locked():
    with open("lock") as lock:
        return 1

def switched():
    return "on" if os.environ.get("SWITCH") else "off"

def guessed():
    if torch.backends.cuda.is_built:
        return 1
    return 2

def compared(dtype):
    return torch.backends.name == "x"

def escapes():
    return ().__class__.__bases__

def reads():
    return Path(__file__).read_text()

def endless():
    return endless()

def asked():
    import subprocess
    return subprocess.check_output(["nvcc"])
"""
NAMES = """
import torch
NAMES = {torch.float16: "fp16_t", torch.bfloat16: "bf16_t"}

class Listed(list[str]):
    def __str__(self) -> str:
        return ", ".join(self)
"""


def text(folder: Path, capability: tuple[int, int] = (12, 0), code: str = CODE) -> Text:
    (folder / "pkg").mkdir(exist_ok=True)
    for name, content in (("__init__.py", ""), ("build.py", code), ("names.py", NAMES)):
        (folder / "pkg" / name).write_text(content)
    facts = {
        "torch.cuda.current_device": lambda: 0,
        "torch.cuda.get_device_capability": lambda *_: capability,
        "os.environ": {},
        "pathlib.Path": Path,
    }
    return Text((folder,), facts, {})


def call(folder: Path, function: str, capability: tuple[int, int] = (12, 0), **arguments: Any) -> Any:
    file = text(folder, capability).file("pkg.build")
    assert file is not None
    return file.call(function, arguments)


def test_flags_are_those_of_the_target(tmp_path: Path) -> None:
    assert call(tmp_path, "flags") == ["-DARCH=1200", "--slow"]
    assert call(tmp_path, "flags", (9, 0), fast=True, extra=["-x"], n=3) == ["-DARCH=900", "-x", "--fast", "n=3"]


def test_template_arguments_are_written_as_the_package_writes_them(tmp_path: Path) -> None:
    assert call(tmp_path, "template", dtype=Dotted("torch.bfloat16"), n=128) == "Kernel<bf16_t, 128>::run"


def test_names_around_a_function_and_switches_that_nobody_set(tmp_path: Path) -> None:
    assert call(tmp_path, "nested", n=21) == 42
    assert call(tmp_path, "switched") == "off"


def test_a_block_that_changes_a_name_and_puts_it_back(tmp_path: Path) -> None:
    """SGLang's override of the architecture around one load_jit."""
    assert call(tmp_path, "inside") == ("-DARCH=1000f", "-DARCH=1200")


def test_the_packages_own_no_is_told_apart(tmp_path: Path) -> None:
    assert call(tmp_path, "closed", (9, 0)) == "-DARCH=900a"
    with pytest.raises(Raised, match="needs sm_90, got 12"):
        call(tmp_path, "closed")


@pytest.mark.parametrize(
    ("function", "arguments", "words"),
    [
        pytest.param("guessed", {}, "torch.backends.cuda.is_built is is not known", id="a condition"),
        pytest.param("compared", {"dtype": 1}, "whether torch.backends.name equals", id="a comparison"),
        pytest.param("escapes", {}, "'.__class__' of tuple is not followed", id="out of plain values"),
        pytest.param("reads", {}, "'.read_text' of", id="a file's content"),
        pytest.param("locked", {}, "'open' is not known", id="a block that is not followed"),
        pytest.param("endless", {}, "too deep to follow", id="recursion"),
        pytest.param("asked", {}, "what subprocess.check_output gives", id="another program"),
        pytest.param("template", {"n": 1}, "template needs a value for 'dtype'", id="a parameter without a value"),
        pytest.param("template", {"dtype": 1, "n": 1, "m": 1}, "template takes no 'm'", id="a value too many"),
        pytest.param("template", {"dtype": 1, "n": 1}, r"NAMES\[dtype\]", id="a value that does not fit"),
    ],
)
def test_what_is_not_known_is_said(tmp_path: Path, function: str, arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(Unknown, match=words):
        call(tmp_path, function, **arguments)


def test_a_file_is_followed_past_what_cannot_be(tmp_path: Path) -> None:
    code = """
import subprocess
seen = []
flags = ["-O3"]
version = subprocess.check_output(["nvcc"])
if version == "13":
    flags.append("-new")
keep(flags)
if 1 < 2:
    other = ["-x"]
    other.append(subprocess.run(["y"]))
    keep(["inside"])
keep(other)
"""
    file, kept = text(tmp_path, code=code).file("pkg.build"), list[str]()
    assert file is not None
    file.text.instead["keep"] = lambda value: kept.append(str(value))
    left_out = run(file)
    # What hangs on the version is not known, so that the flags are not either.
    assert kept == ["pkg.build.flags", "['inside']", "pkg.build.other"]
    assert [line.partition(" of ")[0] for line in left_out] == ["line 5", "line 6", "line 11"]
