"""RECORD: the list of files, with hashes, that an installer leaves beside a package.

Read here with :mod:`csv`, in the way :mod:`importlib.metadata` does, but without making an object for each row:
FlashInfer 0.7.4 has 14,705 of them, and ``find`` must not cost a tenth of a second.
"""

from __future__ import annotations

import base64
import binascii
import csv
from pathlib import Path

__all__ = ["hashes", "rows", "tops"]


def rows(info: Path) -> dict[str, str]:
    """File (as RECORD spells it) to its hash field (``sha256=…``, or ``""``); empty where there is no RECORD."""
    try:
        with (info / "RECORD").open(encoding="utf-8", errors="surrogateescape", newline="") as stream:
            return {row[0]: row[1] if len(row) > 1 else "" for row in csv.reader(stream) if row}
    except (OSError, csv.Error):
        return {}


def tops(info: Path) -> tuple[str, ...] | None:
    """Top-level names that RECORD lists and that can be imported or hold such; None where there is no RECORD."""
    listed = rows(info)
    if not listed:
        return None
    found: dict[str, None] = {}
    for name in listed:
        top, slash, _ = name.partition("/")
        if top in {"..", "", "__pycache__", "bin"} or top.endswith((".dist-info", ".data", ".pth")):
            continue
        if slash or top.endswith((".py", ".so", ".pyd")):
            found[top] = None
    return tuple(found)


def hashes(info: Path) -> dict[str, str]:
    """File relative to the root to the sha256 (hex) that RECORD states.

    Left out: rows without a sha256 (RECORD itself, byte code) and rows outside the root (scripts in
    ``../../../bin``, which an installer writes anew for each environment, and which ``pip --target`` moves).
    """
    found: dict[str, str] = {}
    for name, field in rows(info).items():
        algorithm, _, value = field.partition("=")
        if algorithm != "sha256" or name.startswith(("../", "/")):
            continue
        try:
            found[name] = base64.urlsafe_b64decode(value + "=" * (-len(value) % 4)).hex()
        except (binascii.Error, ValueError):
            continue
    return found
