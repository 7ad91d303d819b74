"""Start and keep one server: its processes, its port, its log, its readiness and its end."""

from __future__ import annotations

from ungate.launch.engines import Engine, detect, engine
from ungate.launch.readiness import Readiness, wait_ready
from ungate.launch.server import Server, Stopped, serve, start
from ungate.launch.watch import Fault, Watch

__all__ = [
    "Engine",
    "Fault",
    "Readiness",
    "Server",
    "Stopped",
    "Watch",
    "detect",
    "engine",
    "serve",
    "start",
    "wait_ready",
]
