"""Ask the serving Python which candidates it and the machine have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ungate.errors import Refusal, shell
from ungate.host import children
from ungate.host.environment import Environment
from ungate.probe.candidates import Facts
from ungate.probe.command import command, variables
from ungate.probe.records import Entrant, Request, Survey
from ungate.probe.serving import SIGN

__all__ = ["survey"]

_DEADLINE_S = 180.0  # a first import of PyTorch from a cold disk


def survey(env: Environment, request: Request) -> Survey:
    """Facts and candidates; Refusal where the Python does not answer, or answers something else."""
    asked = {"device": request.device, "world": request.world, "extra": request.extra}
    words = command(env, "ungate.probe.serving.survey", asked)
    outcome = children.run(words, deadline_s=_DEADLINE_S, env=variables(env, {}), cwd=Path("/"))
    python = words[0]
    if outcome.timed_out:
        raise Refusal(
            f"{python} did not say within {_DEADLINE_S:.0f} s what it has.",
            f"See what holds it up: {shell(python)} -X importtime -c 'import torch'",
        )
    said = [line.partition(SIGN)[2] for line in outcome.output.splitlines() if SIGN in line]
    try:
        told = json.loads(said[-1])
    except (IndexError, ValueError):
        last = outcome.output.strip().splitlines()
        quote = f" Its last words were '{last[-1]}'." if last else ""
        raise Refusal(
            f"{python} could not be asked what it has: it ended with code {outcome.code}.{quote}",
            f"It has to be Python 3.10 or newer, and this has to run: {shell(python)} -c 'import torch'",
        ) from None
    return Survey(_facts(told["facts"]), tuple(Entrant(**each) for each in told["candidates"]))


def _facts(told: dict[str, Any]) -> Facts:
    return Facts(**{**told, "gpus": tuple(told["gpus"]), "capabilities": tuple(told["capabilities"])})
