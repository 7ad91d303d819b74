"""Shared memory of a server whose ungate was killed: found again by the list beside its log, and nothing else is."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from ungate.launch.segments import SHM, SUFFIX, Segments, clear


@pytest.fixture
def segment() -> Iterator[Path]:
    path = SHM / f"ungate-test-{uuid.uuid4().hex}"
    path.write_bytes(b"x" * 4096)
    yield path
    path.unlink(missing_ok=True)


def _listed(folder: Path, *rows: object) -> Path:
    path = folder / "logs" / "baseline" / f"server-001{SUFFIX}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_what_was_written_down_and_is_still_the_same_is_removed(segment: Path, tmp_path: Path) -> None:
    listed = _listed(tmp_path, [segment.name, segment.stat().st_ino], ["gone-long-ago", 1])
    assert clear(tmp_path) == (segment.name,)
    assert not segment.exists() and not listed.exists()
    assert clear(tmp_path) == ()


def test_a_new_segment_of_the_same_name_is_somebody_elses(segment: Path, tmp_path: Path) -> None:
    _listed(tmp_path, [segment.name, segment.stat().st_ino + 1])
    assert clear(tmp_path) == () and segment.exists()


def test_what_a_process_still_has_open_stays(segment: Path, tmp_path: Path) -> None:
    _listed(tmp_path, [segment.name, segment.stat().st_ino])
    with segment.open("rb"):
        assert clear(tmp_path) == ()
    assert segment.exists()


@pytest.mark.parametrize("row", ["no list", [1, 2, 3], ["../etc/passwd", 1], [None, None], {}])
def test_a_damaged_list_removes_nothing(row: object, segment: Path, tmp_path: Path) -> None:
    _listed(tmp_path, row)
    assert clear(tmp_path) == () and segment.exists()


def test_a_segment_is_written_down_when_it_is_seen_and_struck_out_at_the_end(tmp_path: Path) -> None:
    written = tmp_path / f"server-001{SUFFIX}"
    segments = Segments(written=written)
    path = SHM / f"ungate-test-{uuid.uuid4().hex}"
    with path.open("wb") as stream:
        stream.write(b"x")
        segments.look([os.getpid()])
        segments.look([os.getpid()])
        rows = [json.loads(line) for line in written.read_text().splitlines()]
        assert [path.name, path.stat().st_ino] in rows and len({row[0] for row in rows}) == len(rows)
    path.unlink()
    segments.forget()
    assert not written.exists()


SERVER = """
import mmap, os, sys, time
kept = []
for name in sys.argv[2:]:
    descriptor = os.open(f"/dev/shm/{name}", os.O_CREAT | os.O_RDWR)
    os.ftruncate(descriptor, 4096)
    kept.append(mmap.mmap(descriptor, 4096))
    os.close(descriptor)
print("mapped", flush=True)
time.sleep(600)
"""

UNGATE = """
import sys, time
from pathlib import Path
from ungate.launch import engine, ports, start
folder, names = Path(sys.argv[1]), sys.argv[2:]
argv = (sys.executable, str(folder / "server.py"), "{port}", *names)
server = start(argv, engine=engine("openai"), port=ports.free_port(), folder=folder / "logs")
while "mapped" not in server.log.text():
    time.sleep(0.05)
server.segments.look(server.pids())
print(server.pid, flush=True)
time.sleep(600)
"""


def test_a_kill_of_ungate_leaves_segments_that_the_list_finds_again(segment: Path, tmp_path: Path) -> None:
    """The server is killed with it, so that nobody unlinks anything; a stranger's segment beside it stays."""
    (tmp_path / "server.py").write_text(textwrap.dedent(SERVER))
    (tmp_path / "program.py").write_text(textwrap.dedent(UNGATE))
    names = [f"ungate-test-{uuid.uuid4().hex}" for _ in range(2)]
    process = subprocess.Popen(
        [sys.executable, str(tmp_path / "program.py"), str(tmp_path), *names], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    server = psutil.Process(int(process.stdout.readline()))
    server.kill()
    os.kill(process.pid, signal.SIGKILL)
    process.wait(20)
    process.stdout.close()
    end = time.monotonic() + 20
    while server.is_running() and server.status() != psutil.STATUS_ZOMBIE and time.monotonic() < end:
        time.sleep(0.05)
    assert all((SHM / name).exists() for name in names)
    assert clear(tmp_path) == tuple(sorted(names))
    assert not any((SHM / name).exists() for name in names) and segment.exists()
