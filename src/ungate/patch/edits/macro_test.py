"""The name after ``#ifdef`` or ``#ifndef``.

    #ifdef  X   ->   #if defined(X) || (defined(__CUDA_ARCH__) && (__CUDA_ARCH__ == 1200))
    #ifndef X   ->   #if !(defined(X) || (defined(__CUDA_ARCH__) && (__CUDA_ARCH__ == 1200)))

Only the test changes; the macro itself stays undefined, since other places may mean something else by it.
"""

from __future__ import annotations

import re

from ungate.model import Form, Sense
from ungate.patch.edits import Opening, Place, Replacement, Unopenable, opens
from ungate.patch.edits.preprocessor import admission

__all__ = ["open_macro_test"]

_DIRECTIVE = re.compile(rb"(?P<hash>#\s*)(?P<word>ifdef|ifndef|elifdef|elifndef)(?P<space>\s+)\Z")


@opens(Form.MACRO_TEST)
def open_macro_test(place: Place) -> Opening:
    """Turn the directive into ``#if`` (or ``#elif``) and open it."""
    start, end = place.gate.span
    line = place.content.rfind(b"\n", 0, start) + 1
    directive = _DIRECTIVE.search(place.content, line, start)
    name = place.text.strip()
    if directive is None or not name:
        raise Unopenable("no #ifdef or #ifndef stands before its name")
    negative = directive["word"].endswith(b"ndef")
    new = b"elif" if directive["word"].startswith(b"elif") else b"if"
    # the guarded branch is the one without X exactly when the word is negative; what it does is the gate's sense
    wants_defined = (place.gate.sense is Sense.ALLOW) != negative
    defined = b"defined(" + name + b")"
    if wants_defined:
        test = defined + b" || " + admission(place.missing)
    else:
        test = defined + b" && !" + admission(place.missing)
    text = b"!(" + test + b")" if negative else test
    return Opening((Replacement(directive.start("word"), end, new + directive["space"] + text),), place.missing)
