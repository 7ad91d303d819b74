"""A server of the lab for tests: started, asked over HTTP, and looked at from outside."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import psutil

from ungate.lab.install import Lab, command, environment

DEADLINE_S = 60.0
MARKER = "LAB_TEST_MARKER"


@dataclass(frozen=True)
class Server:
    """One start: its process, port, log file and the marker that its processes carry."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path
    marker: str

    def get(self, path: str) -> tuple[int, bytes]:
        return self._answer(Request(f"http://127.0.0.1:{self.port}{path}"))

    def post(self, **body: Any) -> tuple[int, bytes]:
        return self._answer(Request(f"http://127.0.0.1:{self.port}/v1/completions", json.dumps(body).encode()))

    def complete(self, prompt: list[int] | str, max_tokens: int = 16, **more: Any) -> dict[str, Any]:
        status, content = self.post(
            prompt=prompt, max_tokens=max_tokens, ignore_eos=True, return_token_ids=True, **more
        )
        assert status == 200, content
        answer: dict[str, Any] = json.loads(content)
        return answer

    def info(self) -> dict[str, Any]:
        status, content = self.get("/server_info")
        assert status == 200, content
        facts: dict[str, Any] = json.loads(content)
        return facts

    def text(self) -> str:
        return self.log.read_text()

    def wait(self) -> int:
        return self.process.wait(DEADLINE_S)

    def stop(self) -> tuple[int, float]:
        """Exit code and seconds after SIGTERM."""
        started = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(DEADLINE_S)
        return code, time.monotonic() - started

    def family(self) -> list[psutil.Process]:
        """Every living process of this start, wherever it hangs in the tree."""
        return [process for process in psutil.process_iter() if carries(process, self.marker)]

    @staticmethod
    def _answer(request: Request) -> tuple[int, bytes]:
        try:
            with urlopen(request, timeout=DEADLINE_S) as answer:
                return answer.status, answer.read()
        except URLError as error:
            if hasattr(error, "code"):
                return error.code, error.read()  # type: ignore[attr-defined]
            raise


def carries(process: psutil.Process, marker: str) -> bool:
    try:
        return process.environ().get(MARKER) == marker and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


@contextmanager
def serving(
    lab: Lab,
    folder: Path,
    *,
    tp: int = 2,
    fused: bool = False,
    arch: str = "9.0",
    port: int | None = None,
    variables: Mapping[str, str] | None = None,
    extra: tuple[str, ...] = (),
    ready: bool = True,
) -> Iterator[Server]:
    """A server that is killed with all its ranks at the end; ``ready`` waits for /health."""
    folder.mkdir(parents=True, exist_ok=True)
    marker = uuid.uuid4().hex
    log = folder / f"server-{marker[:8]}.log"
    port = free_port() if port is None else port
    own = environment(lab, arch=arch, cache=folder / "cache")
    with log.open("wb") as sink:
        process = subprocess.Popen(
            command(lab, port=port, tp=tp, fused=fused, extra=extra),
            env={**os.environ, **own, MARKER: marker, **(variables or {})},
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            start_new_session=True,
            cwd=folder,
        )
    server = Server(process, port, log, marker)
    try:
        if ready:
            until_ready(server)
        yield server
    finally:
        for member in server.family():
            member.kill()
        process.wait(DEADLINE_S)


def until_ready(server: Server) -> None:
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end:
        assert server.process.poll() is None, server.text()
        try:
            if server.get("/health")[0] == 200:
                return
        except OSError:
            time.sleep(0.02)
    raise AssertionError(f"not ready within {DEADLINE_S} s:\n{server.text()}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def events(content: bytes) -> list[str]:
    """The data of each event of a stream."""
    return [line.removeprefix("data: ") for line in content.decode().split("\n\n") if line]


def eventually(what: Any, deadline_s: float = 10.0) -> bool:
    """Whether ``what()`` becomes true in time."""
    end = time.monotonic() + deadline_s
    while time.monotonic() < end:
        if what():
            return True
        time.sleep(0.02)
    return bool(what())
