"""GPU code in files, read from their headers: what is there, and what a GPU can run of it."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import pytest

from ungate.host.images import Image, images, runs

A, F = 1 << 20, 1 << 21


def fatbin(*entries: tuple[int, int, int]) -> bytes:
    """A fat binary with (kind, architecture, flags) entries, each with 24 bytes of code."""
    rows = []
    for kind, arch, flags in entries:
        head = struct.pack("<HHIQIIHHI", kind, 0x101, 64, 24, 0, 0, 8, 1, arch)
        rows.append(head.ljust(40, b"\0") + struct.pack("<QQQ", flags, 0, 0) + b"\1" * 24)
    body = b"".join(rows)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def library(*sections: tuple[bytes, bytes]) -> bytes:
    """A 64-bit ELF file with these sections, and one that holds their names."""
    names = b"\0" + b"\0".join(name for name, _ in sections) + b"\0.shstrtab\0"
    at, blobs, rows = 64, [], [struct.pack("<IIQQQQIIQQ", *[0] * 10)]
    for name, content in (*sections, (b".shstrtab", names)):
        rows.append(struct.pack("<IIQQQQIIQQ", names.index(name), 1, 0, 0, at, len(content), 0, 0, 8, 0))
        blobs.append(content)
        at += len(content)
    head = b"\x7fELF\2\1\1" + b"\0" * 9
    head += struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 0, at, 0, 64, 0, 0, 64, len(rows), len(rows) - 1)
    return head + b"".join(blobs) + b"".join(rows)


@pytest.mark.parametrize(
    ("sections", "told"),
    [
        pytest.param([], [], id="no section"),
        pytest.param([(b".text", fatbin((2, 90, 0)))], [], id="not a section of fat binaries"),
        pytest.param([(b".nv_fatbin", fatbin((2, 90, A), (2, 120, 0)))], ["sm_90a", "sm_120"], id="two images"),
        pytest.param([(b".nv_fatbin", fatbin((2, 100, F), (1, 120, A)))], ["sm_100f", "compute_120a"], id="suffixes"),
        pytest.param(
            [(b".nv_fatbin", fatbin((2, 80, 0)) + b"\0" * 24 + fatbin((2, 86, 0)))], ["sm_80", "sm_86"], id="padding"
        ),
        pytest.param([(b"__nv_relfatbin", fatbin((2, 89, 0)))], ["sm_89"], id="relocatable"),
    ],
)
def test_what_a_library_holds(sections: Sequence[tuple[bytes, bytes]], told: list[str], tmp_path: Path) -> None:
    path = tmp_path / "a.so"
    path.write_bytes(library(*sections))
    found = images(path)
    assert found is not None and {str(image) for image in found} == set(told)


@pytest.mark.parametrize("text", [b"\x7fELF\2\1", library((b".nv_fatbin", fatbin((2, 90, 0))))[:-100], b"\x7fELF" * 40])
def test_a_damaged_file_is_not_read(text: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.so"
    path.write_bytes(text)
    assert not images(path)
    assert images(tmp_path / "none.so") is None


@pytest.mark.parametrize(
    ("image", "arch", "answer"),
    [
        (Image(120), 120, True),
        (Image(120), 121, True),
        (Image(121), 120, False),
        (Image(90), 100, False),
        (Image(90, ptx=True), 120, True),
        (Image(121, ptx=True), 120, False),
        (Image(90, "a", ptx=True), 100, False),
        (Image(100, "a"), 103, False),
        (Image(100, "f"), 103, True),
        (Image(100, "f"), 110, False),
    ],
)
def test_what_a_gpu_can_run(image: Image, arch: int, answer: bool) -> None:
    assert runs(image, arch) is answer
