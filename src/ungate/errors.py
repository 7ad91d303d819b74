"""The one error a user meets: a whole sentence that ends in the next command to run."""

from __future__ import annotations

import shlex
from enum import IntEnum

__all__ = ["Exit", "Refusal", "shell"]


class Exit(IntEnum):
    """Exit codes of every command."""

    DONE = 0
    FINDINGS = 1
    INCONCLUSIVE = 2
    ERROR = 3
    INTERRUPTED = 130


def shell(word: object) -> str:
    """A path, or another word that ungate did not choose, as it stands in a command that is to be copied."""
    return shlex.quote(str(word))


class Refusal(Exception):
    """A request that ungate does not carry out, with the reason and what to do instead.

    ``what`` is one whole sentence: what happened, to what, and why. ``next_step`` is one sentence
    that holds the next command to run. The command line prints both and exits with ``code``;
    it never prints a traceback for a Refusal.
    """

    def __init__(self, what: str, next_step: str = "", code: Exit = Exit.ERROR) -> None:
        super().__init__(what)
        self.what = what
        self.next_step = next_step
        self.code = code

    def __str__(self) -> str:
        return f"{self.what} {self.next_step}".strip()
