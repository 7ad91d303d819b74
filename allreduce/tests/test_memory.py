from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ungate_allreduce import memory
from ungate_allreduce.errors import Unsupported
from ungate_allreduce.memory import Segment, numa_node


def names() -> set[str]:
    return {path.name for path in Path("/dev/shm").glob("ungate-allreduce-*")}


def test_two_mappings_see_one_memory_and_leave_no_name() -> None:
    before = names()
    first = Segment.create(8192)
    second = Segment.open(first.path, 8192)
    first.forget_name()
    first.word(4096).value = 0x1234567890ABCDEF
    assert second.word(4096).value == 0x1234567890ABCDEF
    second.fill(0, 16, 0xFF)
    assert first.word(8).value == 0xFFFFFFFFFFFFFFFF
    first.close()
    assert second.word(4096).value == 0x1234567890ABCDEF
    second.close()
    second.close()
    assert names() == before


def test_another_process_sees_it() -> None:
    segment = Segment.create(4096)
    code = (
        "import sys; from ungate_allreduce.memory import Segment;"
        "s = Segment.open(sys.argv[1], 4096); s.word(64).value = s.word(0).value + 1"
    )
    segment.word(0).value = 41
    source = str(Path(memory.__file__).parents[1])
    subprocess.run(
        [sys.executable, "-c", code, segment.path], check=True, timeout=60, env={**os.environ, "PYTHONPATH": source}
    )
    assert segment.word(64).value == 42
    segment.forget_name()
    segment.close()


def test_memfd_where_dev_shm_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "SHM", Path("/no/such/folder"))
    segment = Segment.create(4096)
    assert segment.path == f"/proc/{os.getpid()}/fd/{segment.descriptor}"
    other = Segment.open(segment.path, 4096)
    segment.word(0).value = 7
    assert other.word(0).value == 7
    other.close()
    segment.close()


def test_too_much_is_refused_and_leaves_nothing() -> None:
    before = names()
    with pytest.raises(Unsupported, match="--shm-size"):
        Segment.create(1 << 60)
    assert names() == before


def test_memory_that_is_not_there_or_of_another_size_is_refused() -> None:
    with pytest.raises(Unsupported, match="one host"):
        Segment.open("/dev/shm/ungate-allreduce-missing", 4096)
    segment = Segment.create(4096)
    try:
        with pytest.raises(Unsupported, match="another size"):
            Segment.open(segment.path, 8192)
    finally:
        segment.forget_name()
        segment.close()


def test_a_preferred_node_is_asked_for_before_pages_exist() -> None:
    segment = Segment.create(16384, [(4096, 4096, 0), (8192, 4096, None)])
    assert segment.bound in (True, False)  # a kernel without NUMA says no, and that is no error
    assert segment.word(4096).value == 0
    segment.forget_name()
    segment.close()


def test_unknown_numa_node_is_none() -> None:
    assert numa_node("ffff:ff:1f.7") is None
