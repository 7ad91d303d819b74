"""What ends, and what is left: nothing."""

from __future__ import annotations

import os
import signal
import socket
import threading
from pathlib import Path

import pytest
from tests.lab.serving import Server, events, eventually, free_port, serving

from ungate.lab.install import Lab


def nothing_left(server: Server) -> bool:
    with socket.socket() as probe:
        return not server.family() and probe.connect_ex(("127.0.0.1", server.port)) != 0


@pytest.mark.parametrize("fused", [False, True])
def test_sigterm_ends_everything_within_two_seconds(lab: Lab, tmp_path: Path, fused: bool) -> None:
    with serving(lab, tmp_path, fused=fused) as server:
        stream = threading.Thread(target=server.post, kwargs={"prompt": [1], "max_tokens": 1000, "stream": True})
        stream.start()
        assert eventually(lambda: server.info()["counters"]["requests_running"] == 1)
        code, seconds = server.stop()
        stream.join()
        assert code == 0
        assert seconds < 2
        assert nothing_left(server)


def test_an_interrupt_from_the_terminal_reaches_all_and_is_answered_by_one(lab: Lab, tmp_path: Path) -> None:
    with serving(lab, tmp_path) as server:
        os.killpg(server.process.pid, signal.SIGINT)
        assert server.wait() == 0
        assert nothing_left(server)
        assert "Traceback" not in server.text()


@pytest.mark.parametrize("fused", [False, True])
def test_a_killed_server_takes_its_ranks_along(lab: Lab, tmp_path: Path, fused: bool) -> None:
    with serving(lab, tmp_path, tp=4, fused=fused) as server:
        assert len(server.family()) == 5
        cut: list[OSError] = []

        def ask() -> None:
            try:
                server.complete([1], 900)
            except OSError as error:
                cut.append(error)

        client = threading.Thread(target=ask)
        client.start()
        assert eventually(lambda: server.info()["counters"]["requests_running"] == 1)
        server.process.kill()
        server.wait()
        assert eventually(lambda: nothing_left(server), 2)
        client.join()
        assert cut


def test_no_memory_has_a_name(lab: Lab, tmp_path: Path) -> None:
    with serving(lab, tmp_path, fused=True) as server:
        server.complete([1])
        for process in server.family():
            assert not [line for line in Path(f"/proc/{process.pid}/maps").read_text().splitlines() if "/shm/" in line]
            opened = [str(path.readlink()) for path in Path(f"/proc/{process.pid}/fd").iterdir()]
            assert not [name for name in opened if name.startswith(("/dev/shm", "/memfd"))]


def test_a_dead_rank_ends_the_server_and_the_stream_says_so(lab: Lab, tmp_path: Path) -> None:
    with serving(lab, tmp_path, variables={"LAB_FAULT": "die-after:20"}) as server:
        status, content = server.post(prompt=[1], max_tokens=50, stream=True, ignore_eos=True)
        assert status == 200
        *_, error, done = events(content)
        assert "was killed by signal 9" in error
        assert done == "[DONE]"
        assert server.get("/health")[0] == 503
        assert server.wait() == 1
        assert nothing_left(server)


def test_a_rank_that_dies_while_idle_is_noticed(lab: Lab, tmp_path: Path) -> None:
    with serving(lab, tmp_path) as server:
        os.kill(server.info()["pids"][0], signal.SIGKILL)
        assert server.wait() == 1
        assert "rank 0" in server.text()


def test_a_stopped_rank_shows_in_health_and_is_forgiven(lab: Lab, tmp_path: Path) -> None:
    with serving(lab, tmp_path, variables={"LAB_STALL_S": "0.5"}) as server:
        rank = server.info()["pids"][1]
        os.kill(rank, signal.SIGSTOP)
        assert eventually(lambda: server.get("/health")[0] == 503)
        assert b"no answer from rank 1 for" in server.get("/health")[1]
        os.kill(rank, signal.SIGCONT)
        assert eventually(lambda: server.get("/health")[0] == 200)
        server.complete([1])
        os.kill(rank, signal.SIGSTOP)
        code, seconds = server.stop()
        assert (code, seconds < 2) == (0, True)
        assert nothing_left(server)


def test_a_rank_that_hangs_at_work_shows_in_health(lab: Lab, tmp_path: Path) -> None:
    with serving(lab, tmp_path, fused=True, variables={"LAB_STALL_S": "0.5", "LAB_FAULT": "hang-after:3"}) as server:
        stream = threading.Thread(target=server.post, kwargs={"prompt": [1], "stream": True})
        stream.start()
        assert eventually(lambda: server.get("/health")[0] == 503)
        assert b"no answer from rank 1 for" in server.get("/health")[1]
        assert server.info()["counters"]["generation_tokens_total"] == 2
        assert server.stop()[0] == 0
        stream.join()
        assert nothing_left(server)


def test_a_rank_that_dies_at_start_ends_the_start(lab: Lab, tmp_path: Path) -> None:
    with serving(lab, tmp_path, variables={"LAB_FAULT": "die-at-start"}, ready=False) as server:
        assert server.wait() == 1
        assert "rank 1 (pid" in server.text()
        assert "ended with code 17" in server.text()
        assert nothing_left(server)


def test_a_rank_that_hangs_at_start_never_serves_and_can_be_ended(lab: Lab, tmp_path: Path) -> None:
    with serving(lab, tmp_path, variables={"LAB_FAULT": "hang-at-start"}, ready=False) as server:
        assert eventually(lambda: "rank 0 of 2 is ready" in server.text())
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", server.port)) != 0
        assert server.stop()[0] == 0
        assert nothing_left(server)


def test_a_port_in_use_is_said_before_anything_starts(lab: Lab, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", free_port()))
        taken.listen()
        with serving(lab, tmp_path, port=taken.getsockname()[1], ready=False) as server:
            assert server.wait() == 1
            assert "cannot listen on 127.0.0.1" in server.text()
            assert "rank 0" not in server.text()


def test_a_wrong_degree_is_a_usage_error(lab: Lab, tmp_path: Path) -> None:
    with serving(lab, tmp_path, tp=3, ready=False) as server:
        assert server.wait() == 2
        assert "--tp 3 does not divide the 8 heads" in server.text()


def test_not_a_number_stays_json(lab: Lab, tmp_path: Path) -> None:
    with serving(lab, tmp_path, variables={"LAB_FAULT": "nan-after:2"}) as server:
        numbers = server.complete([1], 3, logprobs=1)["choices"][0]["logprobs"]["token_logprobs"]
        assert numbers[0] is not None
        assert numbers[1:] == [None, None]
