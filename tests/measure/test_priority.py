"""The thread that sends the load goes before others while it does, and only then, and only it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from ungate.measure.priority import first_in_line


def _policy() -> int:
    return os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK


def test_a_thread_goes_first_for_a_while_and_its_children_do_not() -> None:
    before = os.sched_getscheduler(0)
    seen: list[int] = []
    with first_in_line() as allowed:
        assert _policy() == (os.SCHED_RR if allowed else before)
        thread = threading.Thread(target=lambda: seen.append(_policy()))
        thread.start()
        thread.join()
        ask = [sys.executable, "-c", "import os; print(os.sched_getscheduler(0))"]
        child = subprocess.run(ask, capture_output=True, text=True, check=True)
    assert seen == [before] and int(child.stdout) == before == os.sched_getscheduler(0)


def test_a_thread_that_may_not_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    with first_in_line() as allowed:
        assert not allowed


def test_an_error_inside_comes_out_and_the_thread_is_ordinary_again() -> None:
    before = os.sched_getscheduler(0)
    with pytest.raises(ValueError, match="inside"), first_in_line():
        raise ValueError("inside")
    assert os.sched_getscheduler(0) == before
