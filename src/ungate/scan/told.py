"""The names that shares of the files tell each other, and from where a file can have them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

__all__ = ["Told", "origins_of"]

Told = tuple[bytes, bytes]
"""The name of an answer, and the last word of the module that binds it; empty where it is read through objects."""


def origins_of(
    answers: Iterable[Told], stars: Iterable[tuple[bytes, bytes]]
) -> Mapping[bytes, frozenset[bytes] | None]:
    """By name the last words of the modules that it can be imported from; None for a name that is read anywhere.

    ``stars`` are pairs of modules of which the second hands on names of the first: by a star, or as a package does. Any
    other module that imports a name tells it as its own. A file that speaks of none of these modules may mean something
    else by the name, as ``torch.cuda.is_available`` is not the ``is_available`` of a kernel.
    """
    onward: dict[bytes, set[bytes]] = {}
    for of, into in stars:
        onward.setdefault(of, set()).add(into)
    found: dict[bytes, set[bytes] | None] = {}
    for name, stem in answers:
        if not stem:
            found[name] = None
        elif (before := found.setdefault(name, set())) is not None:
            waiting = [stem]
            while waiting:
                if (each := waiting.pop()) not in before:
                    before.add(each)
                    waiting.extend(onward.get(each, ()))
    return {name: None if stems is None else frozenset(stems) for name, stems in found.items()}
