from __future__ import annotations

import platform
import threading
from dataclasses import replace
from typing import Any

import pytest

from ungate_allreduce.errors import CallMismatch, PeerTimeout, Unsupported
from ungate_allreduce.host import RankFacts, agree, boot_id, require_linux, source_digest
from ungate_allreduce.layout import CELL_BYTES, CONTROL_BYTES, REPORT_OFFSET
from ungate_allreduce.meeting import Meeting
from ungate_allreduce.memory import Segment

FACTS = RankFacts(
    rank=0, boot=boot_id(), sources=source_digest(), version="1", max_bytes=1024, transport="host", table="t",
    device="GPU-a", pci="0000:01:00.0", arch=90, node=None,
)  # fmt: skip
OTHER = replace(FACTS, rank=1, device="GPU-b")


def test_like_ranks_agree() -> None:
    agree([FACTS, OTHER], shared_device=False)


@pytest.mark.parametrize("field", RankFacts.must_equal)
def test_each_difference_names_the_rank_and_what_to_do(field: str) -> None:
    value: Any = 2048 if field == "max_bytes" else "something else"
    with pytest.raises(CallMismatch, match=r"Rank 1 .*something else|Rank 1 .*2048"):
        agree([FACTS, replace(OTHER, **{field: value})], shared_device=False)


def test_two_ranks_on_one_gpu_are_refused() -> None:
    same = replace(OTHER, device=FACTS.device)
    with pytest.raises(Unsupported, match="Ranks 0 and 1 are on the same GPU"):
        agree([FACTS, same], shared_device=False)
    agree([FACTS, same], shared_device=True)


@pytest.mark.parametrize(
    ("system", "release", "word"),
    [("Windows", "11", "Windows"), ("Darwin", "25", "Darwin"), ("Linux", "6.6.87-microsoft-standard-WSL2", "WSL2")],
)
def test_other_systems_are_refused_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch, system: str, release: str, word: str
) -> None:
    monkeypatch.setattr(platform, "system", lambda: system)
    monkeypatch.setattr(platform, "release", lambda: release)
    with pytest.raises(Unsupported, match=rf"{word}.*Keep NCCL"):
        require_linux()


def test_linux_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    monkeypatch.setattr(platform, "release", lambda: "6.8.0-generic")
    require_linux()


def meetings(world: int) -> tuple[Segment, list[Meeting]]:
    segment = Segment.create(CONTROL_BYTES)
    segment.forget_name()
    return segment, [Meeting(segment, rank, world) for rank in range(world)]


def test_all_come_and_all_go_a_thousand_times() -> None:
    segment, ranks = meetings(3)
    passed = []

    def work(meeting: Meeting) -> None:
        for number in range(1000):
            meeting.meet(number, 60.0, "a test")
        passed.append(meeting.rank)

    threads = [threading.Thread(target=work, args=(meeting,)) for meeting in ranks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(passed) == [0, 1, 2]
    segment.close()


def test_another_digest_is_a_mismatch() -> None:
    segment, (first, second) = meetings(2)
    caught: list[Exception] = []

    def work() -> None:
        try:
            first.meet(1, 10.0, "a test")
        except CallMismatch as error:
            caught.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    with pytest.raises(CallMismatch, match="Rank 0 came to a test with another shape"):
        second.meet(2, 10.0, "a test")
    thread.join(10)
    assert len(caught) == 1
    segment.close()


def test_an_absent_rank_is_a_timeout() -> None:
    segment, (first, _) = meetings(2)
    with pytest.raises(PeerTimeout, match="Rank 1 did not come to a test within"):
        first.meet(0, 0.05, "a test")
    first.clear()
    assert first.count == 0
    segment.close()


def test_who_waits_hears_of_a_rank_that_gave_up() -> None:
    segment, (first, _) = meetings(2)
    segment.word(REPORT_OFFSET + CELL_BYTES).value = 3
    with pytest.raises(PeerTimeout, match="Another rank gave up"):
        first.meet(0, 30.0, "a test")
    segment.close()


def test_who_was_waited_for_in_another_call_makes_a_different_call() -> None:
    segment, (first, second) = meetings(2)
    segment.word(REPORT_OFFSET + CELL_BYTES).value = 1  # a time-out, waiting for rank 0
    assert not second.ahead(0)
    with pytest.raises(CallMismatch, match="waited in a call that it has made before for rank 0"):
        first.meet(0, 30.0, "the first use of a kernel")
    assert second.ahead(0)
    segment.close()
