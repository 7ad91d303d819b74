"""How an engine's kernel profiler is switched on: what the server must be started with, what its endpoint is sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Profiler"]


@dataclass(frozen=True, slots=True)
class Profiler:
    """``start`` and ``stop`` are endpoints that take a POST, ``body`` what ``start`` is sent.

    ``arguments`` and ``environment`` must be there from the server's start. ``{folder}`` in them and in the body
    becomes the folder for the traces. A release takes the arguments only if it has the file ``since`` (a path below
    its packages' folder); an older one would not start with them and reads the environment instead.
    """

    start: str = "/start_profile"
    stop: str = "/stop_profile"
    body: Mapping[str, object] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    since: str = ""

    def prepared(self, folder: Path, roots: Sequence[Path]) -> tuple[tuple[str, ...], dict[str, str]]:
        """Arguments and environment for a server whose packages lie below ``roots``."""
        known = not self.since or any((root / self.since).is_file() for root in roots)
        arguments = self.arguments if known else ()
        return tuple(_placed(word, folder) for word in arguments), {
            name: _placed(value, folder) for name, value in self.environment.items()
        }

    def payload(self, folder: Path) -> dict[str, object]:
        """The body with the folder in its place."""
        return {name: _placed(value, folder) if isinstance(value, str) else value for name, value in self.body.items()}


def _placed(text: str, folder: Path) -> str:
    return text.replace("{folder}", str(folder))
