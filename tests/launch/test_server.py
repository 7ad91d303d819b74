from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import aiohttp
import psutil
import pytest

from ungate.errors import Refusal
from ungate.launch import Server, Watch, detect, engine, ports, serve, start, wait_ready
from ungate.launch.completion import complete, one_token
from ungate.launch.segments import SHM, opened
from ungate.measure.counters import chosen
from ungate.model import Cell

CELL = Cell(concurrency=2, prompt_tokens=8, output_tokens=4)
Script = Callable[[str], tuple[str, ...]]


def segments() -> set[str]:
    return {entry.name for entry in SHM.iterdir()}


def lab_server(lab: tuple[str, ...], environment: dict[str, str], port: int, folder: Path) -> Server:
    server = start(lab, engine=detect(lab), environment=environment, port=port, folder=folder, deadline_s=60)
    try:
        wait_ready(server, CELL)
    except BaseException:
        server.stop(0)
        raise
    return server


def test_a_port_that_answers_is_refused(port: int, tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
        other.listen()
        with pytest.raises(Refusal, match=rf"Port {port} is already in use by .*pid {os.getpid()}"):
            start([sys.executable], engine=engine("openai"), port=port, folder=tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_server_that_another_process_stands_in_for_is_refused(
    script: Script, port: int, tmp_path: Path, lab_environment: dict[str, str]
) -> None:
    """The server sleeps; somebody else opens the port meanwhile and would answer every request."""
    argv = script("time.sleep(60)")
    with serve(argv, engine=engine("openai"), port=port, folder=tmp_path / "logs") as server:
        impostor = subprocess.Popen([sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1"])
        try:
            with pytest.raises(Refusal, match=rf"does not own port {port}"):
                wait_ready(server, CELL, deadline_s=20)
        finally:
            impostor.kill()
            impostor.wait()


def test_an_exit_before_the_port_is_told_at_once_with_its_cause(script: Script, port: int, tmp_path: Path) -> None:
    argv = script("""
        print("Failed to find a CUDA runtime", flush=True)
        time.sleep(0.5)
        raise ValueError("No supported CUDA architectures found for major versions [9, 10].")
        """)
    begun = time.monotonic()
    with (
        serve(argv, engine=engine("openai"), port=port, folder=tmp_path / "logs", deadline_s=60) as server,
        pytest.raises(Refusal, match=r"ended with exit code 1.*ValueError: No supported CUDA.*Failed to find") as told,
    ):
        wait_ready(server, CELL)
    assert time.monotonic() - begun < 10
    assert str(server.log.path) in told.value.next_step


def test_a_process_that_the_kernel_killed_is_told_as_such(script: Script, port: int, tmp_path: Path) -> None:
    """Its log ends in the middle and names no cause."""
    argv = script("""
        print("loading shard 3 of 8", flush=True)
        import os, signal
        os.kill(os.getpid(), signal.SIGKILL)
        """)
    with (
        serve(argv, engine=engine("openai"), port=port, folder=tmp_path / "logs") as server,
        pytest.raises(Refusal, match=r"was killed by SIGKILL, as the kernel does when memory runs out.*shard 3"),
    ):
        wait_ready(server, CELL, deadline_s=20)


def test_no_line_of_an_older_run_is_read(script: Script, port: int, tmp_path: Path) -> None:
    """The mistake of the story: a crash notice of the old log taken for one of the new start."""
    folder = tmp_path / "logs"
    folder.mkdir()
    stale = folder / "server-001.log"
    stale.write_text("Received sigquit from a child process\nRuntimeError: from yesterday\n")
    argv = script("""
        print("all is well", flush=True)
        time.sleep(0.3)
        sys.exit(7)
        """)
    with (
        serve(argv, engine=engine("sglang"), port=port, folder=folder) as server,
        pytest.raises(Refusal, match=r"exit code 7.*all is well") as told,
    ):
        wait_ready(server, CELL, deadline_s=20)
    assert "sigquit" not in told.value.what and "yesterday" not in told.value.what
    assert server.log.path.name == "server-002.log"
    assert stale.read_text().startswith("Received sigquit")


def test_a_start_without_progress_is_ended_before_the_deadline(script: Script, port: int, tmp_path: Path) -> None:
    argv = script("time.sleep(60)")
    begun = time.monotonic()
    with (
        serve(argv, engine=engine("openai"), port=port, folder=tmp_path / "logs") as server,
        pytest.raises(Refusal, match=r"did not open its port and showed no progress for 2 s"),
    ):
        wait_ready(server, CELL, stall_s=2)
    assert time.monotonic() - begun < 15


def test_a_slow_start_that_makes_progress_is_awaited_until_the_deadline(
    script: Script, port: int, tmp_path: Path
) -> None:
    argv = script("""
        for step in range(100):
            print("compiling", step, flush=True)
            time.sleep(0.5)
        """)
    with (
        serve(argv, engine=engine("openai"), port=port, folder=tmp_path / "logs") as server,
        pytest.raises(Refusal, match=r"did not open its port within 5 s"),
    ):
        wait_ready(server, CELL, stall_s=2, deadline_s=5)


def test_the_lab_starts_settles_and_leaves_nothing(
    lab: tuple[str, ...], lab_environment: dict[str, str], port: int, tmp_path: Path
) -> None:
    before = segments()
    for number in range(3):
        with serve(lab, engine=detect(lab), environment=lab_environment, port=port, folder=tmp_path) as server:
            ready = wait_ready(server, CELL, deadline_s=60)
            pids = server.pids()
            assert len(pids) == 3
            assert server.model == "lab-dense"
            assert ready.listening_s <= ready.first_token_s <= ready.seconds
            assert len(ready.rounds) >= 2 and ready.settled
            assert [name for name, _ in ready.phases] == ["ranks", "serving"]
        stopped = server.stop()
        assert stopped.code == 0 and stopped.port_free and not stopped.leaked
        assert not any(psutil.pid_exists(pid) for pid in pids)
        assert not ports.answers(port)
        assert server.log.path.name == f"server-{number + 1:03d}.log"
    assert not {name for name in segments() - before if "lab" in name}


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_hundred_cycles_leave_no_process_socket_or_segment(
    lab: tuple[str, ...], lab_environment: dict[str, str], port: int, tmp_path: Path
) -> None:
    """Budget 5 minutes on two quiet cores."""
    me = psutil.Process()
    files, ours = me.num_fds(), set[str]()
    for _ in range(100):
        server = lab_server(lab, lab_environment, port, tmp_path)
        pids = server.pids()
        ours |= opened(pids)
        stopped = server.stop()
        assert stopped.code == 0 and stopped.port_free and not stopped.leaked
        assert not any(psutil.pid_exists(pid) for pid in pids)
    assert not me.children(recursive=True)
    assert me.num_fds() <= files + 2
    assert not segments() & ours
    assert port not in ports.listeners(psutil.pids())


def test_a_death_at_start_names_the_rank(
    lab: tuple[str, ...], lab_environment: dict[str, str], port: int, tmp_path: Path
) -> None:
    environment = {**lab_environment, "LAB_FAULT": "die-at-start"}
    with (
        serve(lab, engine=detect(lab), environment=environment, port=port, folder=tmp_path) as server,
        pytest.raises(Refusal, match=r"ended with exit code 1.*rank 1 \(pid \d+\) ended with code 17"),
    ):
        wait_ready(server, CELL, deadline_s=30)


def test_a_killed_worker_is_noticed_within_two_seconds(
    lab: tuple[str, ...], lab_environment: dict[str, str], port: int, tmp_path: Path
) -> None:
    server = lab_server(lab, lab_environment, port, tmp_path)
    try:
        with Watch(server) as watch:
            victim = max(server.pids())
            killed = time.monotonic()
            os.kill(victim, signal.SIGKILL)
            while watch.fault is None and time.monotonic() - killed < 5:
                time.sleep(0.05)
            seconds = time.monotonic() - killed
        assert watch.fault is not None and watch.fault.kind in {"worker", "exit"}
        assert seconds <= 2.0
    finally:
        server.stop()
    cause = server.cause()
    assert cause is not None and f"pid {victim}" in cause.text and "signal 9" in cause.text


def test_a_stopped_worker_is_noticed_within_twenty_seconds(
    lab: tuple[str, ...], lab_environment: dict[str, str], port: int, tmp_path: Path
) -> None:
    server = lab_server(lab, lab_environment, port, tmp_path)
    try:
        with Watch(server) as watch:
            halted = time.monotonic()
            os.kill(max(server.pids()), signal.SIGSTOP)
            while watch.fault is None and time.monotonic() - halted < 25:
                time.sleep(0.05)
        assert watch.fault is not None and watch.fault.kind == "stopped"
        assert time.monotonic() - halted <= 20
    finally:
        stopped = server.stop(1.0)
    assert stopped.port_free


def told(server: Server) -> Callable[[], Mapping[str, float]]:
    return lambda: chosen(server.url, server.engine.progress)


def watched(watch: Watch, seconds: float) -> None:
    begun = time.monotonic()
    while watch.fault is None and time.monotonic() - begun < seconds:
        time.sleep(0.05)


@pytest.mark.parametrize("counted", [True, False])
def test_a_hang_that_no_process_state_shows_is_noticed_by_a_token_that_does_not_come(
    counted: bool, lab: tuple[str, ...], lab_environment: dict[str, str], port: int, tmp_path: Path
) -> None:
    """The last rank sleeps for ever in a step, alive; nothing but a completion can tell."""
    environment = {**lab_environment, "LAB_FAULT": "hang-after:70"}
    server = start(lab, engine=detect(lab), environment=environment, port=port, folder=tmp_path, deadline_s=60)
    try:
        wait_ready(server, CELL)
        with Watch(server, quiet_s=0.3, patience_s=2.0, counters=told(server) if counted else dict) as watch:
            while not (answer := one_token(server.url, server.model, 1.0)).fault:
                assert watch.fault is None
            assert answer.fault == "no token for 1 s"
            watched(watch, 30)
        assert watch.fault is not None and watch.fault.kind == "hang"
        assert "nobody works" in watch.fault.what
        assert ("lab:steps_total stays at" in watch.fault.what) is counted
    finally:
        server.stop(1.0)


def test_ranks_that_use_no_cpu_time_may_wait_for_their_gpus(
    lab: tuple[str, ...], lab_environment: dict[str, str], port: int, tmp_path: Path
) -> None:
    """All ranks sleep: with a GPU that is busy that is a long step, and a hang only when no step takes so long."""
    environment = {**lab_environment, "LAB_FAULT": "hang-after:70"}
    server = start(lab, engine=detect(lab), environment=environment, port=port, folder=tmp_path, deadline_s=60)
    try:
        wait_ready(server, CELL)
        with Watch(server, quiet_s=0.3, patience_s=1.5, step_s=6.0, gpu=lambda: 100.0) as watch:
            while not one_token(server.url, server.model, 1.0).fault:
                assert watch.fault is None
            watched(watch, 30)
        assert watch.fault is not None and watch.fault.kind == "hang"
        assert "the busiest GPU was at 100 %" in watch.fault.what and "it spins" in watch.fault.what
    finally:
        server.stop(1.0)


def test_a_server_whose_steps_end_is_slow_and_not_hung(
    lab: tuple[str, ...], lab_environment: dict[str, str], port: int, tmp_path: Path
) -> None:
    """A prompt of nine steps at 0.6 s each: for 5 s no token comes, and every step is a sign of life."""
    environment = {**lab_environment, "LAB_FAULT": "slow-steps:0.6"}
    server = start(lab, engine=detect(lab), environment=environment, port=port, folder=tmp_path, deadline_s=60)
    try:
        wait_ready(server, Cell(1, 1, 1))
        with Watch(server, quiet_s=0.3, patience_s=1.5, counters=told(server)) as watch:
            ended = threading.Event()
            threads = [threading.Thread(target=long_prompt, args=(server, ended)) for _ in range(3)]
            for thread in threads:
                thread.start()
            while any(thread.is_alive() for thread in threads):
                assert watch.fault is None
                time.sleep(0.05)
        assert ended.is_set()
        # On a busy machine the awaited token may come after all, before the counter is asked.
        assert "lab:steps_total grew from" in watch.slow or "one token took" in watch.slow
    finally:
        server.stop(1.0)


def long_prompt(server: Server, ended: threading.Event) -> None:
    async def ask() -> str:
        async with aiohttp.ClientSession() as session:
            return (await complete(session, server.url, server.model, [65] * 760, 1)).fault

    if not asyncio.run(ask()):
        ended.set()


@pytest.mark.parametrize(("step_s", "hung"), [(30.0, False), (3.0, True)])
def test_a_step_that_somebody_works_at_may_last_and_one_that_only_spins_may_not_for_ever(
    step_s: float, hung: bool, lab: tuple[str, ...], lab_environment: dict[str, str], port: int, tmp_path: Path
) -> None:
    """One step of 6 s without a counter: slow, unless no step of this engine can take that long."""
    environment = {**lab_environment, "LAB_FAULT": "slow-steps:6"}
    server = start(lab, engine=detect(lab), environment=environment, port=port, folder=tmp_path, deadline_s=120)
    try:
        wait_ready(server, Cell(1, 1, 1))
        with Watch(server, quiet_s=0.3, patience_s=1.5, step_s=step_s) as watch:
            watched(watch, 9)
        if hung:
            assert watch.fault is not None and "it spins" in watch.fault.what
        else:
            assert watch.fault is None and watch.slow.startswith("one token took 6")
    finally:
        server.stop(1.0)


def test_a_slow_server_is_ready_once_its_speed_is_steady(
    lab: tuple[str, ...],
    lab_environment: dict[str, str],
    port: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rounds of 400 s each would use up the deadline, and a collapsed candidate would never be measured."""
    from ungate.launch import readiness

    monkeypatch.setattr(readiness, "_ENOUGH_S", 6.0)
    monkeypatch.setattr(readiness, "_SPAN_S", 3.0)
    environment = {**lab_environment, "LAB_FAULT": "slow-steps:0.5"}
    with serve(lab, engine=detect(lab), environment=environment, port=port, folder=tmp_path, deadline_s=60) as server:
        ready = wait_ready(server, Cell(4, 8, 200))
    assert ready.settled and len(ready.rounds) == 1
    assert ready.rounds[0] > 60 and "cut short once its speed was steady" in ready.notes[0]


def test_a_round_without_tokens_goes_on_while_steps_end(
    lab: tuple[str, ...], lab_environment: dict[str, str], port: int, tmp_path: Path
) -> None:
    """A prompt of four long steps: nothing is logged and no token comes, but the counter of steps grows."""
    environment = {**lab_environment, "LAB_FAULT": "slow-steps:2.5"}
    cell = Cell(1, 900, 1)
    for counted in (True, False):
        with serve(
            lab, engine=detect(lab), environment=environment, port=port, folder=tmp_path, deadline_s=90
        ) as server:
            if counted:
                assert wait_ready(server, cell, stall_s=6, counters=told(server)).rounds[0] > 7
            else:
                with pytest.raises(Refusal, match="showed no progress for 6 s"):
                    wait_ready(server, cell, stall_s=6)


def test_leaked_segments_are_named_and_removed(script: Script, port: int, tmp_path: Path) -> None:
    argv = script("""
        import mmap, os
        name = f"/dev/shm/ungate-test-{os.getpid()}"
        descriptor = os.open(name, os.O_CREAT | os.O_RDWR)
        os.ftruncate(descriptor, 4096)
        memory = mmap.mmap(descriptor, 4096)
        os.close(descriptor)
        print("mapped", flush=True)
        time.sleep(60)
        """)
    server = start(argv, engine=engine("openai"), port=port, folder=tmp_path / "logs")
    while "mapped" not in server.log.text():
        time.sleep(0.05)
    stopped = server.stop(0.5)
    assert stopped.leaked == (f"ungate-test-{server.pid}",)
    assert not (SHM / stopped.leaked[0]).exists()


def test_grandchildren_that_left_the_session_are_ended(script: Script, port: int, tmp_path: Path) -> None:
    argv = script("""
        import subprocess
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
        print("child", child.pid, flush=True)
        time.sleep(60)
        """)
    server = start(argv, engine=engine("openai"), port=port, folder=tmp_path / "logs")
    while "child" not in server.log.text():
        time.sleep(0.05)
    time.sleep(0.2)
    child = int(server.log.text().split()[1])
    stopped = server.stop(1.0)
    assert stopped.killed == 1
    assert not psutil.pid_exists(child)


def test_ctrl_c_in_the_block_leaves_nothing(port: int, tmp_path: Path, lab_environment: dict[str, str]) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent(f"""
        import sys, time
        from pathlib import Path
        from ungate.launch import detect, serve
        argv = [sys.executable, "-m", "labengine.launch", "--model", "lab-dense", "--tp", "2"]
        with serve(argv, engine=detect(argv), environment={lab_environment!r}, port={port},
                   folder=Path({str(tmp_path)!r})) as server:
            time.sleep(1.0)
            print(*server.pids(), flush=True)
            time.sleep(60)
        """)
    )
    with subprocess.Popen([sys.executable, str(program)], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        assert run.stdout is not None
        pids = [int(word) for word in run.stdout.readline().split()]
        run.send_signal(signal.SIGINT)
        run.communicate(timeout=20)
    assert len(pids) >= 1
    assert not any(psutil.pid_exists(pid) for pid in pids)
    assert ports.bindable(port)
