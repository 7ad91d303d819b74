"""Each arm started once: does it come up, are its outputs right, does the opened path really run?"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace

from ungate.errors import Refusal
from ungate.judge import Guard
from ungate.launch import Engine, Server, detect, engine, serve, wait_ready
from ungate.launch.ports import free_port
from ungate.measure import activation, answers, ladder
from ungate.model import Arm, Decision
from ungate.pipeline.environment import base_environment
from ungate.pipeline.records import Context, Records, Request, StartRecord

__all__ = ["BASELINE", "CANDIDATE", "begin", "engine_of", "launch"]

BASELINE, CANDIDATE = "baseline", "candidate"

_PROVED = {activation.Proof.PROVED: True, activation.Proof.DISPROVED: False, activation.Proof.UNPROVED: None}


def engine_of(request: Request) -> Engine:
    """The recipe's engine file, or the one that the command line looks like."""
    return engine(request.recipe.engine) if request.recipe.engine else detect(request.command)


def arms(request: Request, records: Records) -> tuple[Arm, Arm]:
    """The user's command as it is, and the same with the overlay, the recipe's environment and its arguments."""
    assert records.overlay is not None and records.series is not None
    base = base_environment(request)
    # A flag that the user's own command already carries would switch the feature on in both arms.
    command = set(request.command)
    if command & set(request.recipe.arguments):
        raise Refusal(
            f"The server command already has {' '.join(request.recipe.arguments)}, so both arms would run the feature.",
            "Leave it out after '--': ungate adds it to the candidate only.",
        )
    candidate = {**records.overlay.environment, **request.recipe.environment}
    return (
        Arm(BASELINE, base),
        Arm(CANDIDATE, {**base, **candidate}, request.recipe.arguments, records.series.digest),
    )


def begin(request: Request, arm: Arm, port: int) -> AbstractContextManager[Server]:
    """One start of one arm, as a context manager that yields the server."""
    return serve(
        request.command,
        engine=engine_of(request),
        environment=arm.environment,
        port=port,
        folder=request.folder / "logs" / arm.name,
        deadline_s=request.start_deadline_s,
        arguments=arm.arguments,
    )


def launch(request: Request, records: Records, context: Context) -> Records:
    """Start each arm once; a candidate that does not start or answers wrongly ends the run with a revert."""
    pair = arms(request, records)
    given: dict[str, answers.Answers] = {}
    proofs: dict[str, activation.Reading] = {}
    starts: list[StartRecord] = []
    cell = request.recipe.cells[0]
    ladder_of = answers.rungs(max(request.recipe.cells, key=lambda each: each.concurrency))
    for arm in pair:
        context.report(f"starting the {arm.name} once: ready, outputs, proof that the path runs")
        try:
            with begin(request, arm, free_port()) as server:
                ready = wait_ready(server, cell, report=context.report)
                given[arm.name] = answers.collect(
                    server.url, server.model, ladder_of, repeats=2 if arm.name == BASELINE else 1
                )
                proofs[arm.name] = activation.read(server.url, request.recipe.proof, log=server.log.path)
                starts.append(StartRecord(arm.name, -1, ready.seconds))
        except Refusal as refusal:
            if arm.name == BASELINE:
                raise
            guard = Guard("the candidate starts", False, refusal.what)
            starts.append(StartRecord(arm.name, -1, None, refusal.what))
            return replace(
                records,
                arms=pair,
                guards=(guard,),
                starts=tuple(starts),
                stopped=f"the candidate does not start: {refusal.what}",
            )
    compared = ladder.compare(given[BASELINE], given[CANDIDATE])
    proof = activation.prove(proofs[BASELINE], proofs[CANDIDATE])
    guards = (
        Guard(
            "the candidate starts", True, f"ready after {starts[1].ready_s:.1f} s (baseline {starts[0].ready_s:.1f} s)"
        ),
        Guard("outputs are right", compared.holds, compared.evidence),
        Guard(
            "the opened path runs in the candidate only", _PROVED[proof.proof], proof.evidence, Decision.INCONCLUSIVE
        ),
    )
    stopped = "" if compared.holds is not False else f"the candidate's outputs are wrong: {compared.evidence}"
    return replace(records, arms=pair, guards=guards, starts=tuple(starts), stopped=stopped)
