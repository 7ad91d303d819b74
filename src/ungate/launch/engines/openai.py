"""Any server with an OpenAI-compatible ``/v1/completions``: what is true of all of them."""

from __future__ import annotations

from ungate.launch.engines import Engine, register

__all__ = ["OPENAI"]

OPENAI = register(
    Engine(
        name="openai",
        hints=(),
        fatal=(r"Segmentation fault", r"Fatal Python error", r"out of memory"),
    )
)
