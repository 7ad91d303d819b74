from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from ungate.errors import Refusal
from ungate.host import children
from ungate.host.children import Child

PYTHON = sys.executable

# Starts a grandchild in a session of its own, says its number, and goes on (or ends, when told so).
LEAVES_THE_SESSION = """
import os, subprocess, sys, time
code = "import time; time.sleep(60)"
print(subprocess.Popen([sys.executable, "-c", code], start_new_session=True).pid, flush=True)
time.sleep(float(sys.argv[1]))
"""

# A grandchild that leaves the session, clears its environment (setproctitle does) and, on a sign, loses its parent.
HIDES = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execve(sys.executable, [sys.executable, "-c", "import time; time.sleep(60)"], {})
    while not os.path.exists(sys.argv[1]):
        time.sleep(0.01)
    os._exit(0)
os.wait()
time.sleep(60)
"""


def gone(pid: int, within_s: float = 30.0) -> bool:
    """No such process, and no zombie of it either."""
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        if not psutil.pid_exists(pid):
            return True
        time.sleep(0.02)
    return False


def adopted(pid: int) -> int:
    """Wait for a process that pytest inherited from an ungate that is dead; its exit status."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def wait_for(condition: Callable[[], object], within_s: float = 30.0) -> None:
    end = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str) -> Path:
        path = tmp_path / "script.py"
        path.write_text(textwrap.dedent(text))
        return path

    return write


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """No process of a test outlives it, and none becomes a zombie below pytest.

    Those from before are another file's: ``multiprocessing`` keeps one to its end.
    """
    before = set(psutil.Process().children(recursive=True))
    yield
    now = set(psutil.Process().children(recursive=True)) - before
    left = [process for process in now if process.is_running()]
    for process in left:
        with contextlib.suppress(psutil.Error):
            process.kill()
    assert not left


def test_output_code_and_time() -> None:
    outcome = children.run([PYTHON, "-c", "print('said'); raise SystemExit(7)"], deadline_s=60)
    assert (outcome.code, outcome.timed_out, outcome.output) == (7, False, "said\n")
    assert outcome.log is None
    assert 0 < outcome.seconds < 20


def test_the_log_is_fresh_and_stays(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("a sigquit line of an older run\n")
    outcome = children.run([PYTHON, "-c", "import sys; print('new', file=sys.stderr)"], deadline_s=60, log=log)
    assert outcome.log == log
    assert log.read_text() == "new\n"


def test_standard_output_alone_goes_to_a_file(tmp_path: Path) -> None:
    code = "import sys; print('data'); print('warning', file=sys.stderr)"
    outcome = children.run([PYTHON, "-c", code], deadline_s=60, stdout=tmp_path / "out")
    assert (tmp_path / "out").read_text() == "data\n"
    assert outcome.output == "warning\n"


def test_only_the_tail_is_kept_from_a_whole_line_on(tmp_path: Path) -> None:
    outcome = children.run([PYTHON, "-c", "for i in range(100000): print('line', i)"], deadline_s=60)
    assert len(outcome.output) <= 64 * 1024
    assert outcome.output.startswith("line ")
    assert outcome.output.endswith("line 99999\n")


def test_a_deadline_ends_it_and_is_said() -> None:
    outcome = children.run([PYTHON, "-c", "import time; print('up', flush=True); time.sleep(60)"], deadline_s=1)
    assert outcome.timed_out
    assert outcome.code == -signal.SIGTERM
    assert outcome.output == "up\n"
    assert 1 <= outcome.seconds < 40


def test_a_child_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    code = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"
    )
    child = Child.start([PYTHON, "-c", code], log=tmp_path / "log")
    wait_for(lambda: "deaf" in (tmp_path / "log").read_text())
    before = time.monotonic()
    assert child.stop(grace_s=0.5) == -signal.SIGKILL
    assert 0.5 <= time.monotonic() - before < 30
    assert gone(child.pid)


def test_a_polite_child_gets_its_time(tmp_path: Path) -> None:
    code = """
    import signal, sys, time
    def leave(*_):
        time.sleep(0.3)
        print("cleaned up", flush=True)
        sys.exit(5)
    signal.signal(signal.SIGTERM, leave)
    print("up", flush=True)
    time.sleep(60)
    """
    with Child.start([PYTHON, "-c", textwrap.dedent(code)], log=tmp_path / "log") as child:
        wait_for(lambda: "up" in (tmp_path / "log").read_text())
        assert child.poll() is None
        assert child.stop(grace_s=10) == 5
    assert (tmp_path / "log").read_text() == "up\ncleaned up\n"


def test_a_grandchild_that_left_the_session_is_found(script: Callable[[str], Path], tmp_path: Path) -> None:
    child = Child.start([PYTHON, script(LEAVES_THE_SESSION), "60"], log=tmp_path / "log")
    wait_for((tmp_path / "log").read_text)
    grandchild = int((tmp_path / "log").read_text())
    assert os.getsid(grandchild) != os.getsid(child.pid)
    assert {child.pid, grandchild} <= set(child.members())
    child.stop(grace_s=1)
    assert gone(grandchild)


def test_a_grandchild_that_outlives_its_parent_is_found(script: Callable[[str], Path]) -> None:
    outcome = children.run([PYTHON, script(LEAVES_THE_SESSION), "0"], deadline_s=60)
    assert outcome.code == 0
    assert gone(int(outcome.output))


def test_a_grandchild_without_marker_session_or_parent_is_found(script: Callable[[str], Path], tmp_path: Path) -> None:
    mine = psutil.Process()
    others = set(mine.children(recursive=True))
    child = Child.start([PYTHON, script(HIDES), tmp_path / "sign"], log=tmp_path / "log")

    def orphans() -> list[psutil.Process]:
        return [process for process in mine.children() if process.pid != child.pid and process not in others]

    wait_for(lambda: any(process.environ() == {} for process in set(mine.children(recursive=True)) - others))
    assert child.poll() is None  # looks at the family, as a wait does every two seconds
    (tmp_path / "sign").touch()
    wait_for(orphans)
    (orphan,) = orphans()
    assert orphan.ppid() == mine.pid  # ungate inherited it
    child.stop(grace_s=1)
    assert gone(orphan.pid)


def test_reap_needs_only_the_marker(script: Callable[[str], Path], tmp_path: Path) -> None:
    child = Child.start([PYTHON, script(LEAVES_THE_SESSION), "60"], log=tmp_path / "log")
    wait_for((tmp_path / "log").read_text)
    assert children.reap(child.marker) == 2
    assert child.stop() == -signal.SIGKILL
    assert gone(int((tmp_path / "log").read_text()))
    assert children.reap(child.marker) == 0


def test_reap_spares_the_children_of_others(tmp_path: Path) -> None:
    one = Child.start([PYTHON, "-c", "import time; time.sleep(60)"], log=tmp_path / "1")
    two = Child.start([PYTHON, "-c", "import time; time.sleep(60)"], log=tmp_path / "2")
    one.stop(0)
    assert two.poll() is None
    two.stop(0)


def test_a_nested_child_carries_both_markers(tmp_path: Path) -> None:
    inner = "import os; print(os.environ['UNGATE_CHILD'])"
    code = f"from ungate.host import children; print(children.run(['{PYTHON}', '-c', {inner!r}], deadline_s=60).output)"
    child = Child.start([PYTHON, "-c", code], log=tmp_path / "log")
    assert child.wait(60) == 0
    child.stop()
    markers = (tmp_path / "log").read_text().strip().split(":")
    assert markers[0] == child.marker
    assert len(markers) == 2


def test_an_interruption_kills_the_child(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    started: list[Child] = []

    def interrupted(self: Child, timeout_s: float) -> int | None:
        started.append(self)
        raise KeyboardInterrupt

    monkeypatch.setattr(Child, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        children.run([PYTHON, "-c", "import time; time.sleep(60)"], deadline_s=60, log=tmp_path / "log")
    assert gone(started[0].pid)


def test_control_c_reaches_ungate_and_nothing_is_left(tmp_path: Path) -> None:
    code = f"""
    from pathlib import Path
    from ungate.host import children
    sleep = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
    children.run(["{PYTHON}", "-c", sleep], deadline_s=60, log=Path("{tmp_path}/log"))
    """
    ungate = subprocess.Popen([PYTHON, "-c", textwrap.dedent(code)], stderr=subprocess.DEVNULL)
    log = tmp_path / "log"
    wait_for(lambda: log.exists() and log.read_text())
    ungate.send_signal(signal.SIGINT)
    assert ungate.wait(60) != 0
    assert gone(int(log.read_text()))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="PR_SET_PDEATHSIG is Linux's")
def test_the_child_does_not_outlive_a_killed_ungate(tmp_path: Path) -> None:
    code = f"""
    import time
    from pathlib import Path
    from ungate.host.children import Child
    sleep = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
    Child.start(["{PYTHON}", "-c", sleep], log=Path("{tmp_path}/log"))
    time.sleep(60)
    """
    ungate = subprocess.Popen([PYTHON, "-c", textwrap.dedent(code)])
    log = tmp_path / "log"
    wait_for(lambda: log.exists() and log.read_text())
    ungate.kill()
    ungate.wait(60)
    assert adopted(int(log.read_text())) == -signal.SIGTERM


def test_a_thread_that_ends_does_not_take_its_child_along(tmp_path: Path) -> None:
    started: list[Child] = []

    def start() -> None:
        started.append(Child.start([PYTHON, "-c", "import time; time.sleep(60)"], log=tmp_path / "log"))

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    assert started[0].wait(0.5) is None
    started[0].stop(0)


@pytest.mark.parametrize(
    ("content", "mode"),
    [
        pytest.param(None, 0, id="missing"),
        pytest.param("text", 0o644, id="not executable"),
        pytest.param("", 0o755, id="empty"),
    ],
)
def test_what_cannot_be_started_is_refused(tmp_path: Path, content: str | None, mode: int) -> None:
    program = tmp_path / "program"
    if content is not None:
        program.write_text(content)
        program.chmod(mode)
    with pytest.raises(Refusal, match="could not be started"):
        children.run([program], deadline_s=5)


def test_arguments_are_not_read_by_a_shell(tmp_path: Path) -> None:
    outcome = children.run(
        [PYTHON, "-c", "import sys; print(sys.argv[1])", f"; touch {tmp_path}/x $HOME"], deadline_s=60
    )
    assert outcome.output == f"; touch {tmp_path}/x $HOME\n"
    assert list(tmp_path.iterdir()) == []
