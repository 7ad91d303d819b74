"""A question in the user's words (a flag, an attribute, a symbol, a value, an error's text), turned into chains."""

from __future__ import annotations

import re

from ungate.errors import Refusal
from ungate.model import Chain
from ungate.trace.answers import MOST_CHAINS, definitions, of_attribute, of_symbol, of_value
from ungate.trace.ask_message import of_message
from ungate.trace.chain import Trace
from ungate.trace.flags import flag_of

__all__ = ["ask", "ask_attribute"]


def ask(trace: Trace, text: str) -> tuple[Chain, ...]:
    """The chains that answer a question, the most telling first. Refusal where nothing in the packages answers."""
    text = text.strip()
    chains: tuple[Chain, ...] = ()
    if re.fullmatch(r"--[\w-]+(=\S+)?", text):
        flag, _, value = text.partition("=")
        chains = of_value(trace, value, flag) if value else of_attribute(trace, flag, "")
    elif re.fullmatch(r"[\w.]+:[\w.]+", text):
        thing = trace.entry(text)
        chains = (of_symbol(trace, thing, text),) if thing is not None else ()
    elif re.fullmatch(r"[\w.-]+", text):
        chains = _of_word(trace, text)
    if not chains and re.search(r"\s", text):
        chains = of_message(trace, text)
    if not chains:
        where = ", ".join(f"{package.name} {package.version}".strip() for package in trace.corpus.packages)
        raise Refusal(
            f"'{text}' is no flag, attribute, symbol or error text of {where}.",
            "Give the message as it was printed, or a name from the code: ungate why flashinfer-allreduce-fusion",
        )
    distinct: dict[tuple[tuple[str, int], ...], Chain] = {}
    for chain in chains:
        distinct.setdefault(tuple((hop.file, hop.line) for hop in chain.hops if hop.kind != "call"), chain)
    return tuple(distinct.values())


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
