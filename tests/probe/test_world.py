"""The ranks of a candidate as processes: every way in which one may end, without PyTorch."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from ungate.errors import Refusal
from ungate.host.children import Child
from ungate.probe import leftovers, world
from ungate.probe.records import State
from ungate.probe.world import Failure, World

RANK = """
import json, os, socket, subprocess, sys, time
address, rank = sys.argv[1], int(sys.argv[2])
line = socket.socket(socket.AF_UNIX)
line.connect(address)
stream = line.makefile("rw")
def say(answer):
    stream.write(json.dumps(answer) + "\\n")
    stream.flush()
say({"rank": rank})
for text in stream:
    asked = json.loads(text)
    does = asked.get(str(rank), asked["do"])
    if does == "hang":
        time.sleep(3600)
    if does == "exit":
        print("last words", flush=True)
        sys.exit(asked["code"])
    if does == "answer and exit":
        say({"it": rank})
        sys.exit(0)
    if does == "flood":
        while True:
            sys.stdout.write("spam " * 20000)
    if does == "fail":
        say({"failed": "ValueError: no"})
    elif does == "unavailable":
        say({"unavailable": "There is none."})
    elif does == "halves":
        stream.write(json.dumps({"it": rank})[:4])
        stream.flush()
        time.sleep(0.3)
        stream.write(json.dumps({"it": rank})[4:] + "\\n")
        stream.flush()
    elif does == "child":
        subprocess.Popen(["sleep", "3598"], start_new_session=True)
        say({"it": rank})
    else:
        say({"it": rank, "long": "x" * asked.get("long", 0)})
    if does == "close":
        break
"""


def _start(rank: int, address: Path) -> tuple[list[str], dict[str, str]]:
    return [sys.executable, "-c", RANK, str(address), str(rank)], dict(os.environ)


@pytest.fixture
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with World(2, tmp_path_factory.mktemp("w")) as started:
        started.start(_start, 60.0)
        yield started
    assert not [each for each in psutil.process_iter(["cmdline"]) if RANK in (each.info["cmdline"] or [])]


def _failure(ranks: World, request: dict[str, object], deadline_s: float = 60.0) -> Failure:
    with pytest.raises(Failure) as failed:
        ranks.ask(request, deadline_s, "trying")
    return failed.value


def test_answers_come_in_order_of_rank(ranks: World) -> None:
    assert ranks.ask({"do": "x"}, 60.0, "trying") == [{"it": 0, "long": ""}, {"it": 1, "long": ""}]
    assert [each["it"] for each in ranks.ask({"do": "halves"}, 60.0, "trying")] == [0, 1]
    assert [len(each["long"]) for each in ranks.ask({"do": "x", "long": 300_000}, 60.0, "trying")] == [300_000] * 2


def test_one_that_hangs(ranks: World) -> None:
    failure = _failure(ranks, {"do": "x", "1": "hang"}, 1.0)
    assert (failure.state, failure.reason) == (State.HUNG, "It hung within 1 s while trying: no answer from rank 1.")


@pytest.mark.parametrize("code", [3, 0])
def test_one_that_ends(ranks: World, code: int) -> None:
    failure = _failure(ranks, {"do": "hang", "1": "exit", "code": code})
    assert failure.state is State.CRASHED
    assert failure.reason == f"Rank 1 ended with exit code {code} while trying."
    assert failure.log == ("last words",)


def test_an_answer_just_before_the_end_counts(ranks: World) -> None:
    assert len(ranks.ask({"do": "answer and exit"}, 60.0, "trying")) == 2


def test_one_that_fails_is_waited_for_by_nobody(ranks: World) -> None:
    begun = time.monotonic()
    failure = _failure(ranks, {"do": "hang", "0": "fail"})
    assert (failure.state, failure.reason) == (State.FAILED, "Rank 0 failed while trying: ValueError: no")
    assert time.monotonic() - begun < 30


def test_the_crash_is_told_and_not_the_error_that_follows_from_it(ranks: World) -> None:
    failure = _failure(ranks, {"do": "x", "0": "fail", "1": "exit", "code": 9})
    assert failure.state is State.CRASHED and "Rank 1" in failure.reason


def test_one_that_is_not_available(ranks: World) -> None:
    failure = _failure(ranks, {"do": "unavailable"})
    assert (failure.state, failure.reason) == (State.UNAVAILABLE, "There is none.")


def test_one_that_prints_without_end(ranks: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world, "_LOG_MOST", 1 << 20)
    failure = _failure(ranks, {"do": "x", "1": "flood"})
    assert failure.state is State.CRASHED and "printed more than 1 MiB" in failure.reason


def test_a_process_that_it_leaves_is_ended_and_told(ranks: World) -> None:
    ranks.ask({"do": "x", "0": "child"}, 60.0, "trying")
    assert ranks.end(60.0) == ""
    ranks.stop()
    assert ranks.notes == ["It left 1 process behind, which ungate ended."]
    assert not [each for each in psutil.process_iter(["cmdline"]) if each.info["cmdline"] == ["sleep", "3598"]]


def test_one_that_outlives_its_end_is_told_and_the_next_is_ended(ranks: World, monkeypatch: pytest.MonkeyPatch) -> None:
    stop = Child.stop
    refusals = [Refusal("Process 1 did not end 10 s after SIGKILL.", "Look at it with: ps")]

    def stuck(child: Child, grace_s: float = 10.0) -> int:
        code = stop(child, grace_s)
        if refusals:
            raise refusals.pop()
        return code

    monkeypatch.setattr(Child, "stop", stuck)
    ranks.stop()
    assert ranks.notes == ["Process 1 did not end 10 s after SIGKILL. Look at it with: ps"]


def test_one_that_never_connects(tmp_path: Path) -> None:
    def start(rank: int, address: Path) -> tuple[list[str], dict[str, str]]:
        return ["sleep", "3597"], dict(os.environ)

    with World(2, tmp_path) as started, pytest.raises(Failure, match="hung within 1 s while starting"):
        started.start(start, 1.0)


def test_a_path_that_is_too_long_for_a_socket(tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 120)
    deep.mkdir()
    with World(2, deep) as started, pytest.raises(Refusal, match="too long a path"):
        started.start(_start, 60.0)


def test_only_what_nobody_has_mapped_is_removed_from_shared_memory() -> None:
    path = leftovers.MEMORY / f"ungate-test-{os.getpid()}"
    path.write_bytes(b"x")
    try:
        with path.open("rb"):
            assert path.name in leftovers.mapped([os.getpid()])
            assert leftovers.remove([path.name]) == ()
        assert leftovers.remove([path.name, "ungate-test-not-there"]) == (path.name,)
        assert not path.exists()
    finally:
        path.unlink(missing_ok=True)
