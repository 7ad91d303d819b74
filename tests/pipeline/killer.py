"""One process of a run that kills itself at a chosen moment; run again, it goes on with the same run.

    python -m tests.pipeline.killer FOLDER UNTIL [POINT STEP]

FOLDER holds everything: the lab, state, cache, and ``done``, a line for each time that a step was carried out. POINT is
``before`` (the step is done and its result not yet written), ``between`` (written, and the ledger does not know),
``after`` (the ledger knows) or ``inside`` (in the middle of its load, with a server running).
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from ungate import pipeline
from ungate.host import files
from ungate.host.environment import resolve
from ungate.lab.install import command, install
from ungate.model import Cell, Target
from ungate.pipeline import journal
from ungate.pipeline.journal import Journal
from ungate.recipes import load
from ungate.record import Ledger

__all__ = ["CELL", "main", "request"]

CELL = Cell(2, 16, 8)


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def request(folder: Path, until: str) -> pipeline.Request:
    """The smallest campaign there is: one cell, two pairs, two ranks, a second of load."""
    lab = install(folder / "site")
    (folder / "run").mkdir()
    return pipeline.Request(
        recipe=replace(load("lab-allreduce-fusion"), cells=(CELL,)),
        environment=resolve(lab.site, None),
        target=Target.parse("sm_120"),
        folder=folder / "run",
        until=until,
        command=command(lab, port=0, tp=2) if until not in {"patch", "build"} else (),
        variables={"LAB_CUDA_ARCH_LIST": "12.0", "LAB_KERNELS_CACHE": str(folder / "kernels")},
        pairs=2,
        min_effect=0.25,
        budget_s=600.0,
        load_s=1.0,
        start_deadline_s=60.0,
    )


def _arm(folder: Path, point: str, goal: str) -> None:
    """Log every step that is carried out, and die at ``point`` of the step ``goal``."""
    carry_out, put = Journal._once, files.write

    def once(self: Journal, name: str, act: Callable[[], Any], *rest: Any) -> Any:
        def logged() -> Any:
            if point == "inside" and name == goal:
                from ungate.measure import load as loading

                setattr(loading, "run", lambda *_, **__: _die())  # noqa: B010
            value = act()
            with (folder / "done").open("a", encoding="utf-8") as stream:
                stream.write(f"{name}\n")
            return value

        value = carry_out(self, name, logged, *rest)
        if (point, goal) == ("after", name):
            _die()
        return value

    def write(path: Path, content: bytes) -> None:
        name = path.relative_to(folder / "run" / "steps").with_suffix("").as_posix()
        if (point, goal) == ("before", name):
            _die()
        put(path, content)
        if (point, goal) == ("between", name):
            _die()

    setattr(Journal, "_once", once)  # noqa: B010
    setattr(journal, "write", write)  # noqa: B010


def main() -> int:
    folder, until = Path(sys.argv[1]), sys.argv[2]
    os.environ.update(UNGATE_STATE_DIR=str(folder / "state"), UNGATE_CACHE_DIR=str(folder / "cache"))
    if len(sys.argv) > 3:
        _arm(folder, sys.argv[3], sys.argv[4])
    else:
        _arm(folder, "", "")
    outcome = pipeline.resume() if Ledger.here().runs() else pipeline.run(request(folder, until))
    return int(outcome.code)


if __name__ == "__main__":
    sys.exit(main())
