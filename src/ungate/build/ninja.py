"""What ninja remembers of a build: which files each output was made from.

``.ninja_deps`` is a log of records (ninja's manual, "Dependencies", and src/deps_log.cc): a header, a version, then for
each record a size whose highest bit tells a dependency record from a path.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from pathlib import Path

__all__ = ["inputs"]

_HEADER = b"# ninjadeps\n"
_VERSIONS = (3, 4)  # 3 keeps the time in 4 bytes, 4 in 8


def _logged(folder: Path) -> dict[str, tuple[str, ...]]:
    """Output to its inputs, as the log has them; empty without a log or with one of an unknown version."""
    try:
        content = (folder / ".ninja_deps").read_bytes()
    except OSError:
        return {}
    if not content.startswith(_HEADER) or len(content) < len(_HEADER) + 4:
        return {}
    place = len(_HEADER)
    (version,) = struct.unpack_from("<i", content, place)
    if version not in _VERSIONS:
        return {}
    place, paths, found = place + 4, list[str](), dict[str, tuple[str, ...]]()
    time_words = 2 if version == 4 else 1
    while place + 4 <= len(content):
        (size,) = struct.unpack_from("<I", content, place)
        place, length = place + 4, size & 0x7FFFFFFF
        if place + length > len(content):
            break  # a record that was cut short when the build was killed
        record = content[place : place + length]
        place += length
        if size >> 31:
            numbers = struct.unpack(f"<{length // 4}I", record)
            named = [paths[number] for number in numbers[1 + time_words :] if number < len(paths)]
            if numbers[0] < len(paths):
                found[paths[numbers[0]]] = tuple(named)  # the last record of an output counts
        else:
            paths.append(record[:-4].rstrip(b"\0").decode("utf-8", "surrogateescape"))
    return found


def _described(folder: Path) -> Iterator[str]:
    """The explicit inputs of ``build.ninja`` (``build x.o: compile x.cpp``), a blank written as ``$ ``."""
    try:
        text = (folder / "build.ninja").read_text(encoding="utf-8", errors="surrogateescape").replace("$\n", "")
    except OSError:
        return
    outputs, sources = set(), []
    for line in re.findall(r"^build (.+)$", text, re.MULTILINE):
        made, _, rest = line.partition(": ")
        outputs.update(_words(made))
        sources += _words(rest)[1:]
    yield from (source for source in sources if source not in outputs and source not in {"|", "||"})


def _words(text: str) -> list[str]:
    return [word.replace("$ ", " ").replace("$:", ":") for word in re.findall(r"(?:\$.|[^\s$])+", text)]


def inputs(folder: Path) -> tuple[Path, ...] | None:
    """Every file that the outputs in a ninja folder were made from; None where ninja left nothing to read."""
    if not (folder / "build.ninja").exists():
        return None
    logged = _logged(folder)
    names = dict.fromkeys([*_described(folder), *(name for made in logged.values() for name in made)])
    return tuple(folder / name for name in names)  # an absolute name stays what it is
