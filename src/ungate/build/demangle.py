"""C++ names as people write them, through the C++ runtime that every Linux machine with Python packages has."""

from __future__ import annotations

import ctypes
import functools
import re

__all__ = ["demangled", "family"]


@functools.cache
def _runtime() -> ctypes.CDLL | None:
    for name in ("libstdc++.so.6", "libc++abi.so.1"):
        try:
            library = ctypes.CDLL(name)
            library.__cxa_demangle.restype = ctypes.c_void_p
            library.__cxa_demangle.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p]
        except (OSError, AttributeError):
            continue
        return library
    return None


def demangled(name: str) -> str:
    """``_Z4fullILi64EEvPf`` as ``void full<64>(float*)``; the name itself where it cannot be taken apart."""
    runtime = _runtime()
    if runtime is None or not name.startswith("_Z"):
        return name
    status = ctypes.c_int()
    place = runtime.__cxa_demangle(name.encode(), None, None, ctypes.byref(status))
    if status.value != 0 or not place:
        return name
    text = ctypes.string_at(place).decode("utf-8", "replace")
    ctypes.CDLL(None).free(ctypes.c_void_p(place))
    return text


def family(name: str) -> str:
    """A demangled name without return type, template arguments and parameters: what the source calls the kernel."""
    text, depth, kept = name.replace("(anonymous namespace)", "{anonymous}"), 0, []
    for letter in text:
        if letter == "<":
            depth += 1
        elif letter == ">" and depth:
            depth -= 1
        elif depth == 0:
            if letter == "(":
                break
            kept.append(letter)
    return re.split(r"\s+", "".join(kept).strip())[-1]
