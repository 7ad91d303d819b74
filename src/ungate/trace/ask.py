"""A question in the user's words (a flag, an attribute, a symbol, a value, an error's text), turned into chains."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ungate.errors import Refusal
from ungate.model import Chain
from ungate.trace.answers import MOST_CHAINS, definitions, of_attribute, of_symbol, of_value
from ungate.trace.ask_message import of_message, of_statement
from ungate.trace.ask_runtime import of_runtime, rest_of
from ungate.trace.ask_thrown import of_binary, of_thrown
from ungate.trace.chain import Trace
from ungate.trace.flags import flag_of
from ungate.trace.message import raised
from ungate.trace.pause import uncollected
from ungate.trace.thrown import thrown

__all__ = ["ask", "ask_attribute"]

_SHORT = 40  # characters of a message that several statements are likely to write
_LONGEST = 300  # characters of a question that are repeated where nothing answers it
_ELSEWHERE = (
    ". Where a compiled package wrote it (sgl-kernel, deep-gemm, flash-mla), name an environment that has it: "
    "--python PATH"
)
_SURE = 0.6  # of a message's characters written out by one Python statement: no other language is asked then


@uncollected()
def ask(trace: Trace, text: str, roots: Sequence[Path] = ()) -> tuple[Chain, ...]:
    """The chains that answer a question, the most telling first. Refusal where nothing in the packages answers.

    ``roots`` are the folders whose binaries are looked into for an error of the CUDA runtime, which no package writes;
    without them, those of the packages under trace.
    """
    text = text.strip()
    chains: tuple[Chain, ...] = ()
    runtime = of_runtime(text, roots or _roots(trace), trace.target) if re.search(r"\s|^cuda|^CUDA_", text) else None
    if runtime is not None:
        rest = rest_of(text)
        return (runtime, *(_of_text(trace, rest) if rest else ()))
    if re.fullmatch(r"--[\w-]+(=\S+)?", text):
        flag, _, value = text.partition("=")
        chains = of_value(trace, value, flag) if value else ()
        if not chains:
            lost = (
                (f"What {value} chooses was not found; these are the ways of {flag} with any value.",) if value else ()
            )
            chains = tuple(replace(chain, notes=(*lost, *chain.notes)) for chain in of_attribute(trace, flag, ""))
    elif re.fullmatch(r"[\w.]+:[\w.]+", text):
        thing = trace.entry(text)
        chains = (of_symbol(trace, thing, text),) if thing is not None else ()
    elif re.fullmatch(r"[\w.-]+", text):
        chains = _of_word(trace, text)
    if not chains and re.search(r"\s", text):
        chains = _of_text(trace, text) or of_statement(trace, text)
    if not chains:
        where = ", ".join(f"{package.name} {package.version}".strip() for package in trace.corpus.packages)
        lines = [line.strip() for line in text.splitlines() if line.strip()] or [""]
        told = lines[-1] if len(lines[-1]) <= _LONGEST else lines[-1][:_LONGEST] + "…"
        raise Refusal(
            f"'{told}' is no flag, attribute, symbol or error text of {where}.",
            "Give the message as it was printed, or a name from the code: ungate why flashinfer-allreduce-fusion"
            + (_ELSEWHERE if re.search(r"\s", text) else ""),
        )
    distinct: dict[tuple[tuple[str, int], ...], Chain] = {}
    for chain in chains:
        ends = tuple((hop.file, hop.line) for hop in chain.hops if hop.kind != "call" and hop.file)
        distinct.setdefault(ends or tuple((hop.file, hop.line) for hop in chain.hops), chain)
    return tuple(distinct.values())


def _of_text(trace: Trace, text: str) -> tuple[Chain, ...]:
    """A message of Python code, else of C++ and CUDA code, else of a binary."""
    python = max((hit.fixed for hit in raised(trace.graph, text)), default=0)
    short = len(text) < _SHORT or python < _SURE * len(text)
    hits = thrown(trace.corpus, text) if short else ()
    native = hits[0].fixed if hits else 0
    below = of_thrown(trace, text) if native and native >= python else ()
    if native > python or (below and any(hop.gates for chain in below for hop in chain.hops if hop.kind == "raise")):
        return (*below, *(of_message(trace, text) if native == python else ()))
    return (*of_message(trace, text), *below) or of_binary(trace, text)


def _roots(trace: Trace) -> tuple[Path, ...]:
    return tuple(dict.fromkeys(package.root for package in trace.corpus.packages))


def ask_attribute(trace: Trace, attribute: str) -> tuple[Chain, ...]:
    """The chains of a server attribute, none where it decides about nothing that is compiled."""
    return of_attribute(trace, "", attribute)


def _of_word(trace: Trace, word: str) -> tuple[Chain, ...]:
    things = list(definitions(trace.graph, word.rpartition(".")[2]))
    if things:
        return tuple(of_symbol(trace, thing, word) for thing in things[:MOST_CHAINS])
    if flag_of(trace.graph, "", word) is not None:
        return of_attribute(trace, "", word)
    return of_value(trace, word)
