"""Text and token ids: a token below 256 is a byte."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["EOS", "decode", "encode", "join"]

EOS = 257


def encode(text: str) -> list[int]:
    """The bytes of the UTF-8 form."""
    return list(text.encode())


def decode(token: int) -> str:
    """A printable ASCII character as itself, everything else as ``<number>``: never empty, one token at a time."""
    return chr(token) if 32 <= token < 127 else f"<{token}>"


def join(tokens: Sequence[int]) -> str:
    """The text of several tokens."""
    return "".join(map(decode, tokens))
