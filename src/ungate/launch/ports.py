"""Who listens on a port: nobody, our own processes, or somebody else's server."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterable

import psutil

__all__ = ["answers", "bindable", "free_port", "holder", "listeners"]

_PATIENCE_S = 0.5


def answers(port: int) -> bool:
    """Whether something accepts connections on the loopback address at ``port``."""
    for host in ("127.0.0.1", "::1"):
        with contextlib.suppress(OSError), socket.create_connection((host, port), _PATIENCE_S):
            return True
    return False


def bindable(port: int) -> bool:
    """Whether a server could listen on ``port`` now; closed connections that linger in TIME_WAIT do not count."""
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def free_port() -> int:
    """A port that nobody listens on at this moment."""
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        return int(trial.getsockname()[1])


def listeners(pids: Iterable[int]) -> frozenset[int]:
    """The TCP ports on which these processes listen. A process that is gone or not ours to read has none."""
    ports: set[int] = set()
    for pid in pids:
        with contextlib.suppress(psutil.Error):
            connections = psutil.Process(pid).net_connections("tcp")
            ports.update(c.laddr.port for c in connections if c.status == psutil.CONN_LISTEN and c.laddr)
    return frozenset(ports)


def holder(port: int) -> str:
    """``name (pid N)`` of the process that listens on ``port``, or ``another process`` where that is hidden."""
    with contextlib.suppress(psutil.Error, OSError):
        for connection in psutil.net_connections("tcp"):
            local = connection.laddr
            if connection.status == psutil.CONN_LISTEN and connection.pid and local and local.port == port:
                return f"{psutil.Process(connection.pid).name()} (pid {connection.pid})"
    return "another process"
