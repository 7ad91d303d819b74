from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from ungate.build import ninja


def log(records: Sequence[tuple[str, Sequence[str]]], version: int = 4) -> bytes:
    """A dependency log as ninja writes it: paths get numbers in the order they appear."""
    numbers: dict[str, int] = {}
    content = b"# ninjadeps\n" + struct.pack("<i", version)
    for output, inputs in records:
        for name in (output, *inputs):
            if name not in numbers:
                numbers[name] = len(numbers)
                padded = name.encode() + b"\0" * (-len(name.encode()) % 4)
                content += struct.pack("<I", len(padded) + 4) + padded + struct.pack("<I", ~numbers[name] & 0xFFFFFFFF)
        time = (7, 0) if version == 4 else (7,)
        words = (numbers[output], *time, *(numbers[name] for name in inputs))
        content += struct.pack(f"<I{len(words)}I", len(words) * 4 | 1 << 31, *words)
    return content


BUILD = """rule compile
  command = c++ -c $in -o $out
build /cache/x/a.o: compile /src/a.cu
build /cache/x/b$ c.o: compile $
    /src/b$ c.cu
build /cache/x/x.so: link /cache/x/a.o /cache/x/b$ c.o
default /cache/x/x.so
"""


def test_the_description_alone_gives_the_sources(tmp_path: Path) -> None:
    (tmp_path / "build.ninja").write_text(BUILD)
    assert ninja.inputs(tmp_path) == (Path("/src/a.cu"), Path("/src/b c.cu"))


@pytest.mark.parametrize("version", [3, 4])
def test_the_log_adds_every_header(tmp_path: Path, version: int) -> None:
    (tmp_path / "build.ninja").write_text(BUILD)
    records = [
        ("/cache/x/a.o", ["/src/a.cu", "/inc/old.h"]),
        ("b.o", ["rel.h", "/inc/c.h"]),
        ("/cache/x/a.o", ["/src/a.cu"]),
    ]
    (tmp_path / ".ninja_deps").write_bytes(log(records, version))
    assert ninja.inputs(tmp_path) == (
        Path("/src/a.cu"),
        Path("/src/b c.cu"),
        tmp_path / "rel.h",
        Path("/inc/c.h"),
    )


def test_a_log_that_was_cut_short_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    (tmp_path / "build.ninja").write_text(BUILD)
    whole = log([("a.o", ["/inc/a.h"]), ("b.o", ["/inc/b.h"])])
    (tmp_path / ".ninja_deps").write_bytes(whole[:-3])
    assert Path("/inc/a.h") in (ninja.inputs(tmp_path) or ())
    assert Path("/inc/b.h") not in (ninja.inputs(tmp_path) or ())


@pytest.mark.parametrize("content", [b"", b"something else", b"# ninjadeps\n\x63\0\0\0rest"])
def test_an_unknown_log_is_not_guessed_at(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "build.ninja").write_text(BUILD)
    (tmp_path / ".ninja_deps").write_bytes(content)
    assert ninja.inputs(tmp_path) == (Path("/src/a.cu"), Path("/src/b c.cu"))


def test_a_folder_without_ninja_says_nothing(tmp_path: Path) -> None:
    assert ninja.inputs(tmp_path) is None


@pytest.mark.wheels
def test_the_log_of_a_real_ninja(tmp_path: Path) -> None:
    """Installs ninja into a folder of its own and builds one object with it."""
    tools = tmp_path / "tools"
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--target", tools, "ninja"], check=True, timeout=280)
    (tmp_path / "my.h").write_text("#define X 1\n")
    (tmp_path / "a.cpp").write_text('#include "my.h"\nint a() { return X; }\n')
    (tmp_path / "build.ninja").write_text(
        "rule compile\n  command = c++ -MMD -MF $out.d -c $in -o $out\n  depfile = $out.d\n  deps = gcc\n"
        f"build a.o: compile {tmp_path}/a.cpp\n"
    )
    ninja_program = shutil.which("ninja", path=str(tools / "bin"))
    assert ninja_program
    environment = {**os.environ, "PYTHONPATH": str(tools)}
    subprocess.run([ninja_program, "-C", tmp_path], check=True, timeout=120, env=environment, stdout=subprocess.DEVNULL)
    assert set(ninja.inputs(tmp_path) or ()) == {tmp_path / "a.cpp", tmp_path / "my.h"}
