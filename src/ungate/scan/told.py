"""The names that shares of the files tell each other, and from where a file can have them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

__all__ = ["Origins", "Told", "imports", "origins_of"]

Told = tuple[bytes, bytes]
"""The name of an answer, and the last word of the module that binds it; empty where it is read through objects."""

Origins = Mapping[bytes, frozenset[bytes] | None]
"""By name the last words of the modules that it can be imported from; None for a name that is read anywhere."""


def imports(data: bytes) -> Iterator[tuple[bytes, bool]]:
    """The last words of the modules that a text imports from, and whether every name is imported."""
    at = data.find(b" import ")
    while at >= 0:
        words = data[data.rfind(b"\n", 0, at) + 1 : at].split()
        if len(words) == 2 and words[0] == b"from" and (stem := words[1].rpartition(b".")[2]):
            yield stem, data.startswith(b"*", at + len(b" import "))
        at = data.find(b" import ", at + 1)


def origins_of(known: Origins, answers: Iterable[Told], stars: Iterable[tuple[bytes, bytes]]) -> Origins:
    """What is known of origins with these answers added.

    ``stars`` are pairs of modules of which the second hands on names of the first: by a star, or as a package does. Any
    other module that imports a name tells it as its own. A file that speaks of none of these modules means something
    else by the name, as ``torch.cuda.is_available`` is not the ``is_available`` of a kernel.
    """
    onward: dict[bytes, set[bytes]] = {}
    for of, into in stars:
        onward.setdefault(of, set()).add(into)
    found: dict[bytes, set[bytes] | None] = {
        name: None if stems is None else set(stems) for name, stems in known.items()
    }
    for name, stem in answers:
        if not stem:
            found[name] = None
        elif (before := found.setdefault(name, set())) is not None:
            waiting = [stem]
            while waiting:
                each = waiting.pop()
                if each not in before or each == stem:
                    before.add(each)
                    waiting.extend(onward.get(each, set()) - before)
    return {name: None if stems is None else frozenset(stems) for name, stems in found.items()}
