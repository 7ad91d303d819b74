"""What ungate knows about each serving engine: one file an engine, registered by import."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ungate.errors import Refusal
from ungate.launch.profiler import Profiler

__all__ = ["Engine", "detect", "engine", "names", "register"]


@dataclass(frozen=True, slots=True)
class Engine:
    """How one serving engine is started, watched and asked.

    Patterns are regular expressions for one log line. ``hints`` are words of a command line that
    identify the engine. ``model_options`` are read in order for the name that requests must carry.
    ``ready`` lines say that the engine's own warm-up is over (none: it does not say).
    ``fatal`` lines announce a cause; ``echoes`` only point at a cause told elsewhere, or follow from
    it. ``worker`` matches the title or command line of a process without which the engine is dead, ``rank``
    that of a process that computes, and so uses CPU time while it has work.
    ``cache_hits`` are the counters of a prefix cache at ``metrics``, ``counters`` those worth
    recording over time, ``progress`` those that grow only when a step of the model has ended; ``steps`` matches log
    lines that tell the same. ``profiler`` says how kernel names are had. ``environment`` is set in every arm.
    """

    name: str
    hints: tuple[str, ...]
    port_option: str = "--port"
    model_options: tuple[str, ...] = ("--served-model-name", "--model")
    ready: tuple[str, ...] = ()
    fatal: tuple[str, ...] = ()
    echoes: tuple[str, ...] = ()
    phases: tuple[tuple[str, str], ...] = ()
    worker: str = ""
    rank: str = ""
    passing: str = ""  # helper processes that may end while the server lives
    segments: str = ""  # names that the engine gives to its shared-memory segments
    metrics: str = "/metrics"
    cache_hits: tuple[str, ...] = ()
    counters: tuple[str, ...] = ()
    progress: tuple[str, ...] = ()
    steps: str = ""
    profiler: Profiler | None = None
    environment: Mapping[str, str] = field(default_factory=dict)

    def place(self, argv: Sequence[str], port: int, arguments: Sequence[str] = ()) -> tuple[str, ...]:
        """The command line with the port set and an arm's ``arguments`` appended.

        ``{port}`` in a word is replaced; else the port option is replaced where it stands, or added.
        """
        if any("{port}" in word for word in argv):
            return (*(word.replace("{port}", str(port)) for word in argv), *arguments)
        placed: list[str] = []
        words, found = list(argv), False
        while words:
            word = words.pop(0)
            if word == self.port_option and words:
                words.pop(0)
                placed += [word, str(port)]
                found = True
            elif word.startswith(f"{self.port_option}="):
                placed.append(f"{self.port_option}={port}")
                found = True
            else:
                placed.append(word)
        if not found:
            placed += [self.port_option, str(port)]
        return (*placed, *arguments)

    def model(self, argv: Sequence[str]) -> str:
        """The model name that requests must carry, as the command line says it; empty where it does not."""
        for option in self.model_options:
            for number, word in enumerate(argv):
                if word == option and number + 1 < len(argv):
                    return argv[number + 1]
                if word.startswith(f"{option}="):
                    return word.partition("=")[2]
        return ""

    def phase(self, line: str) -> str:
        """The start-up phase that a log line announces, or nothing."""
        return next((name for name, pattern in self.phases if re.search(pattern, line)), "")


_REGISTRY: dict[str, Engine] = {}


def register(new: Engine) -> Engine:
    """Called once by each engine file."""
    _REGISTRY[new.name] = new
    return new


def _load() -> dict[str, Engine]:
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return _REGISTRY


def names() -> tuple[str, ...]:
    """Every engine that has a file, sorted."""
    return tuple(sorted(_load()))


def engine(name: str) -> Engine:
    """The engine of that name; Refusal when there is no file for it."""
    try:
        return _load()[name]
    except KeyError:
        known = ", ".join(names())
        raise Refusal(
            f"There is no engine file for '{name}' (there are: {known}).", "Name one of them: ungate run --help"
        ) from None


def detect(argv: Sequence[str]) -> Engine:
    """The engine that a command line starts; the plain OpenAI-compatible one where no hint matches.

    The program and the module behind ``-m`` say it first; else the word that comes first, because the name of a
    model or of a folder further on may hold that of another engine.
    """
    module = argv[argv.index("-m") + 1 :][:1] if "-m" in argv else []
    for words in ([*(Path(word).name for word in argv[:1]), *module], [Path(word).name for word in argv], argv):
        for word in words:
            for candidate in _load().values():
                if any(hint in word for hint in candidate.hints):
                    return candidate
    return engine("openai")
