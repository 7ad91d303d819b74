"""Answers to the text of an error: the statement that writes it, and the chain of what leads there."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import replace

from ungate.model import Chain, Gate, Hop, Reached, Status
from ungate.trace import above, message, raises
from ungate.trace.answers import MOST_CHAINS, definitions, of_symbol, of_value, recipe_of
from ungate.trace.ask_statement import statements
from ungate.trace.chain import Trace
from ungate.trace.conditions import guard_lines
from ungate.trace.deciding import BRANCH
from ungate.trace.gates import marked
from ungate.trace.graph import Site
from ungate.trace.message import Raised
from ungate.trace.names import Thing
from ungate.trace.required import answered, required
from ungate.trace.route import Route, entered, thing_of, upward

__all__ = ["of_message", "of_statement"]

_MOST_NAMED = 12  # calls that are listed one by one
_MOST_ALIKE = 1  # chains of each of several statements that write one text
_MOST_BEHIND = 2  # chains of what stands behind a flag's value


def of_message(trace: Trace, text: str) -> tuple[Chain, ...]:
    """From an error's text: the statement that writes it, the calls that give it these values, their chains. Where
    several statements write it, one chain for each of the first that an architecture decides about."""
    hits = message.raised(trace.graph, text)
    if not hits:
        return ()
    alike = [other for other in hits if other.fixed == hits[0].fixed]
    gated = [other for other in alike if raises.raise_hop(trace, other).gates]
    if len(gated) > 1 and not any(message.calls_with(trace.graph, other)[0] for other in gated):
        rest = tuple(other for other in alike if other not in gated[:MOST_CHAINS])
        return tuple(
            chain for other in gated[:MOST_CHAINS] for chain in _of_hit(trace, text, other, rest)[:_MOST_ALIKE]
        )
    hit = (gated or alike)[0]
    return _of_hit(trace, text, hit, tuple(other for other in alike if other is not hit))


def _of_hit(trace: Trace, text: str, hit: Raised, same: Sequence[Raised]) -> tuple[Chain, ...]:
    exact, every = message.calls_with(trace.graph, hit)
    if exact:
        return _of_calls(trace, text, hit, exact)
    named = _named(trace, hit)
    keys = [shown.strip("'\"`") for shown in hit.values.values()]
    demands = tuple(hop for thing in named for hop in required(trace, thing, keys, text))
    own = raises.raise_hop(trace, hit)
    demands = demands or answered(trace, text)
    if demands:
        return (Chain(text, trace.target, (*demands, own), (), _written(hit, ())),)
    asked = raises.flags_asked(trace, hit.scope, hit.at)
    if own.gates or asked:
        return _of_raise(trace, text, hit, own, asked, same)
    if named:
        notes = _written(hit, ())
        return tuple(_noted(of_symbol(trace, thing, text), notes) for thing in named[:MOST_CHAINS])
    if any(_gates(trace, site) for site in every):
        return _of_calls(trace, text, hit, every)
    return _of_raise(trace, text, hit, own, (), same)


def of_statement(trace: Trace, text: str) -> tuple[Chain, ...]:
    """From a traceback without a message: the statement that it shows, and the chain of what leads there."""
    hits = statements(trace, text)
    if not hits:
        return ()
    hit = hits[0]
    asked = raises.flags_asked(trace, hit.scope, hit.at)
    chains = _of_raise(trace, text, hit, raises.raise_hop(trace, hit), asked, hits[1:])
    place = f"The statement stands at {hit.scope.module.file}:{hit.line} in {hit.scope.name or '<module>'}."
    return (replace(chains[0], notes=(place, *chains[0].notes[1:])), *chains[1:])


def _named(trace: Trace, hit: Raised) -> list[Thing]:
    """The functions of the packages whose names the message shows."""
    found: dict[Thing, None] = {}
    for shown in hit.values.values():
        word = shown.strip("'\"`").rpartition(".")[2]
        if word.isidentifier() and len(word) > 3 and 0 < trace.graph.definitions(word) <= MOST_CHAINS:
            found.update(dict.fromkeys(definitions(trace.graph, word)))
    return list(found)


def _of_raise(
    trace: Trace,
    text: str,
    hit: Raised,
    own: Hop,
    asked: Sequence[tuple[str, str]],
    same: Sequence[Raised],
) -> tuple[Chain, ...]:
    """The raise itself decides: the flag that its conditions read, or the way to its function, then the raise."""
    thing = thing_of(hit.scope)
    hops: list[Hop] = []
    if asked:
        for attribute, value in asked[:_MOST_BEHIND]:
            recipe = recipe_of(trace, text, "", attribute)
            known = {(hop.file, hop.line) for hop in hops}
            found = above.flag_hops(trace.graph, trace.gates, recipe, hit.scope.module.file, value)
            hops.extend(hop for hop in found if (hop.file, hop.line) not in known)
    elif behind := raises.flags_behind(trace, hit.scope, hit.at):
        for attribute in behind:
            recipe = recipe_of(trace, text, "", attribute)
            hops.extend(above.flag_hops(trace.graph, trace.gates, recipe, hit.scope.module.file)[:1])
    else:
        hops.extend(_way(trace, text, thing, hit))
    hops.extend(above.asked_hops(trace.graph, trace.gates, hit.scope, hit.at))
    hops.append(own)
    branch = any(gate.role == BRANCH for gate in own.gates)
    decided = asked or any(gate.status(trace.target) is not Status.OPEN for gate in own.gates)
    filled = () if decided or branch else raises.filled_by(trace, hit)
    through = _let_through(trace, own)
    lists = (_looked_at(filled),) if through and filled and not branch else ()
    notes = (*_written(hit, ()), *through, *lists, *_elsewhere(same))
    chains = [Chain(text, trace.target, (*hops, *filled), (), notes)]
    for value in dict.fromkeys(value for _, value in asked if value):
        chains.extend(of_value(trace, value)[:_MOST_BEHIND])
        if len(chains) > _MOST_BEHIND:
            break
    return tuple(chains)


def _way(trace: Trace, text: str, thing: Thing, hit: Raised) -> tuple[Hop, ...]:
    """From a server flag to the function that raises, as far as the code shows it."""
    route: Route | None = upward(trace.graph, thing, trace.switches.own, sure_only=True) or entered(trace.graph, thing)
    attribute = route.influence.attribute if route is not None and route.influence is not None else ""
    recipe = recipe_of(trace, text, "", attribute)
    hops = above.flag_hops(trace.graph, trace.gates, recipe, hit.scope.module.file)
    if route is None or route.influence is None:
        return (
            above.flagless_hop(str(thing), route),
            *(above.route_hops(trace.graph, trace.gates, route) if route is not None else ()),
        )
    return (*hops, *above.route_hops(trace.graph, trace.gates, route))


def _of_calls(trace: Trace, text: str, hit: Raised, sites: Sequence[Site]) -> tuple[Chain, ...]:
    """What is raised depends on what the calls hand over: one chain for each of those that matter most."""
    shown = set(re.findall(r"\w+", text))  # a traceback names the calls that it came through
    sites = [site for site in sites if site.scope.name.rpartition(".")[2] in shown] or sites
    callers = list(dict.fromkeys(site.caller for site in sites))
    gates = {
        caller: [gate for site in sites if site.caller == caller for gate in _gates(trace, site)] for caller in callers
    }
    closed = {thing for thing, found in gates.items() for gate in found if gate.status(trace.target) is Status.CLOSED}
    refused = [caller for caller in callers if caller in closed]
    notes = _written(hit, sites)
    if refused or not any(gates.values()):
        chosen = refused or callers
        chains = [of_symbol(trace, caller, text) for caller in chosen[: 2 * MOST_CHAINS]]
        chains.sort(key=lambda chain: (not _led(chain), not _entered(chain)))
        led = [chain for chain in chains if _led(chain)]
        return tuple(_noted(chain, notes) for chain in (led or chains)[:MOST_CHAINS])
    own = raises.raise_hop(trace, hit)
    filled = raises.filled_by(trace, hit)
    builds = [_caller_hop(trace, site) for site in {site.caller: site for site in sites}.values()]
    told = (
        f"{trace.target} is let through by {'the call' if len(builds) == 1 else f'each of the {len(builds)} calls'} "
        "that can raise this, so no gate is to be opened: what the message complains of is what was found on the "
        "machine. " + _looked_at(filled),
    )
    return (Chain(text, trace.target, (*filled, own, *builds), (), (*notes[:1], *told)),)


def _led(chain: Chain) -> bool:
    """Whether a server flag leads to it."""
    return any(hop.kind == "flag" and hop.verified for hop in chain.hops)


def _entered(chain: Chain) -> bool:
    """Whether one package calls it in another."""
    return len({hop.file.partition("/")[0] for hop in chain.hops if hop.kind == "call" and hop.verified}) > 1


def _looked_at(filled: Sequence[Hop]) -> str:
    if not filled:
        return "Compare the versions of the toolkit, the driver and the GPU with it: ungate doctor"
    places = ", ".join(f"{hop.file}:{hop.line}" for hop in filled)
    return (
        f"The list it looks at is filled at {places}: an architecture list in the environment, the devices that are "
        "visible, or a toolkit too old for them decide it. See them: env | grep ARCH_LIST; ungate doctor"
    )


def _caller_hop(trace: Trace, site: Site) -> Hop:
    """A function that hands over the values; a build where it compiles a module."""
    scope = site.scope
    builds = trace.graph.names.building(site.caller)
    found = _gates(trace, site)
    kind = "jit-module" if builds else "call"
    return Hop(kind, scope.module.file, site.line, scope.name, True, found, "can raise it")


def _gates(trace: Trace, site: Site) -> tuple[Gate, ...]:
    """The gates that decide about a call: in the conditions before it, in what it hands over, or in a decorator."""
    scope = site.scope
    call = next((node for node in scope.nodes(ast.Call) if node.func is site.use.node), None)
    last = (call.end_lineno or site.line) if call is not None else site.line
    names = {node.id for node in ast.walk(call) if isinstance(node, ast.Name)} if call is not None else set[str]()
    given = [value for name in names for value in scope.values.get(name, ())]
    ranges = [(scope.first, scope.body), *guard_lines(scope, site.line), (site.line, last)]
    ranges += [(value.lineno, value.end_lineno or value.lineno) for value in given]
    return marked(trace.gates.within(scope.module.file, ranges), Reached.YES)


def _written(hit: Raised, sites: Sequence[Site]) -> tuple[str, ...]:
    notes = [f"The message is written at {hit.scope.module.file}:{hit.line} by {hit.scope.name or '<module>'}."]
    if hit.shared:
        notes.append(
            f"Only “{hit.shared}” of the text stands there, not all of it: another release or package may have "
            "printed it."
        )
    told = [f"{site.scope.module.file}:{site.line} {site.scope.name}" for site in sites]
    if len(told) > 1:
        more = f" and {len(told) - _MOST_NAMED} more" if len(told) > _MOST_NAMED else ""
        notes.append(f"It can come from {len(told)} calls: {', '.join(told[:_MOST_NAMED])}{more}.")
    return tuple(notes)


def _let_through(trace: Trace, own: Hop) -> tuple[str, ...]:
    statuses = {gate.status(trace.target) for gate in own.gates}
    if not statuses or Status.CLOSED in statuses or Status.UNKNOWN in statuses:
        return ()
    if any(gate.role == BRANCH for gate in own.gates):
        return (
            f"The message stands in a branch that is for {trace.target}: what it refuses is told by the other "
            "conditions before it, or is the branch itself. No gate before it is to be opened.",
        )
    return (
        f"For {trace.target} the conditions on architectures before it let through, so that it was raised for another "
        "device than this target, or for another reason: compare with ungate doctor on the machine in question.",
    )


def _elsewhere(same: Sequence[Raised]) -> tuple[str, ...]:
    if not same:
        return ()
    places = ", ".join(f"{other.scope.module.file}:{other.line}" for other in same[:_MOST_NAMED])
    return (f"The same text is also written at {places}.",)


def _noted(chain: Chain, notes: Sequence[str]) -> Chain:
    return replace(chain, notes=(*notes, *chain.notes))
