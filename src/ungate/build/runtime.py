"""Which CUDA runtime a compiled module was linked with, and whether the environment has that one.

FlashInfer's folders name its version and the architecture and not the toolkit: a module that a host's CUDA 13 compiled
is loaded in an environment of CUDA 12, and fails with a driver that is "too old" (flashinfer-ai/flashinfer#5145).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

__all__ = ["another_toolkit", "needed"]

_RUNTIME = re.compile(r"libcudart\.so\.(\d+)")
_NAMED = re.compile(r"nvidia-cuda-runtime-cu(\d+)")


def another_toolkit(libraries: Sequence[Path], versions: Mapping[str, str]) -> str:
    """Why these libraries do not fit the environment's CUDA runtime, empty where they do or it is not known."""
    majors = set(_runtimes(versions))
    if len(majors) != 1:
        return ""
    (major,) = majors
    for library in libraries:
        if library.suffix != ".so":
            continue
        for name in needed(library):
            found = _RUNTIME.fullmatch(name)
            if found and int(found[1]) != major:
                return f"{library.name} is linked with {name}, and this environment has the runtime of CUDA {major}"
    return ""


def _runtimes(versions: Mapping[str, str]) -> Iterator[int]:
    for name, version in versions.items():
        if found := _NAMED.fullmatch(name):
            yield int(found[1])
        elif name == "nvidia-cuda-runtime" and version.partition(".")[0].isdigit():
            yield int(version.partition(".")[0])


def needed(library: Path) -> tuple[str, ...]:
    """The libraries that a library asks for (``DT_NEEDED``); none where it is no ELF file or cannot be read."""
    from elftools.common.exceptions import ELFError
    from elftools.elf.dynamic import DynamicSection
    from elftools.elf.elffile import ELFFile

    try:
        with library.open("rb") as stream:
            section = ELFFile(stream).get_section_by_name(".dynamic")
            if not isinstance(section, DynamicSection):
                return ()
            return tuple(str(getattr(tag, "needed", "")) for tag in section.iter_tags("DT_NEEDED"))
    except (ELFError, OSError):
        return ()
