"""The system's C++ compiler."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Compiler", "find_compiler"]

DEADLINE_S = 300.0


@dataclass(frozen=True)
class Compiler:
    """A command and the first line that it answers to ``--version``."""

    command: tuple[str, ...]
    version: str

    def compile(self, source: Path, target: Path, flags: Sequence[str], scratch: Path) -> tuple[Path, ...]:
        """Compile one source and return the headers it includes, those of the system left out (-MMD)."""
        rules = target.with_suffix(".d")
        self._run([*flags, "-MMD", "-MF", str(rules), "-c", str(source), "-o", str(target)], scratch)
        words = shlex.split(rules.read_text().replace("\\\n", " "))
        return tuple(Path(word) for word in words[1:] if Path(word) != source)

    def link(self, objects: Sequence[Path], library: Path, scratch: Path) -> None:
        """Link a shared object."""
        self._run(["-shared", *map(str, objects), "-o", str(library)], scratch)

    def _run(self, arguments: Sequence[str], scratch: Path) -> None:
        # Temporary files lie where the next build clears them, whatever kills this one.
        environment = {**os.environ, "TMPDIR": str(scratch), "LC_ALL": "C"}
        command = [*self.command, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, env=environment, check=False)
        if done.returncode:
            raise RuntimeError(f"The compiler failed ({done.returncode}): {shlex.join(command)}\n{done.stderr}")


def find_compiler() -> Compiler:
    """``CXX``, else c++, g++ or clang++ on the path; RuntimeError when there is none."""
    chosen = shlex.split(os.environ.get("CXX", ""))
    for command in [chosen] if chosen else [["c++"], ["g++"], ["clang++"]]:
        if shutil.which(command[0]):
            answer = subprocess.run(
                [*command, "--version"], capture_output=True, text=True, timeout=DEADLINE_S, check=False
            )
            lines = answer.stdout.splitlines()
            if answer.returncode == 0 and lines:
                return Compiler(tuple(command), lines[0])
    looked = chosen[0] if chosen else "c++, g++ and clang++"
    raise RuntimeError(
        f"No C++ compiler was found (looked for {looked}). Install one (Debian and Ubuntu: apt install g++; "
        "Fedora: dnf install gcc-c++) or set CXX."
    )
