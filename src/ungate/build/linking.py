"""What a package's own build needs to find the toolkit, and to link where there is no driver."""

from __future__ import annotations

import ctypes.util
import os
from collections.abc import Mapping
from pathlib import Path

from ungate.errors import Refusal
from ungate.host import children, toolchain

__all__ = ["variables"]

_DEADLINE_S = 60.0


def variables(environment: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Variables to add to ``environment`` for a build; ``folder`` takes the stub, where one is needed.

    ``CUDA_HOME``, where it is not set, is what nvcc itself calls its toolkit: packages guess it from where nvcc lies on
    PATH, which a wrapper script there leads astray. ``LIBRARY_PATH`` (read by gcc when it links) gets an empty libcuda
    where neither the system nor the toolkit has one: modules name the driver's library and find it when loaded.
    """
    added: dict[str, str] = {}
    home = toolchain.home()
    if home is not None and not (environment.get("CUDA_HOME") or environment.get("CUDA_PATH")):
        added["CUDA_HOME"] = str(home)
    if home is not None and not _linkable(home):
        stub = _stub(folder)
        added["LIBRARY_PATH"] = os.pathsep.join(filter(None, (str(stub.parent), environment.get("LIBRARY_PATH", ""))))
    return added


def _linkable(home: Path) -> bool:
    """Whether ``-lcuda`` is found: the plain name, which a driver alone does not always install."""
    places = [home / "lib64" / "stubs", home / "lib" / "stubs", home / "targets" / "x86_64-linux" / "lib" / "stubs"]
    if any((place / "libcuda.so").exists() for place in places):
        return True
    usual = (Path("/usr/lib64"), Path("/usr/lib/x86_64-linux-gnu"), Path("/usr/lib"))
    return ctypes.util.find_library("cuda") is not None and any((place / "libcuda.so").exists() for place in usual)


def _stub(folder: Path) -> Path:
    library = folder / "stubs" / "libcuda.so"
    if library.exists():
        return library
    library.parent.mkdir(parents=True, exist_ok=True)
    draft = library.with_suffix(".part")
    # The name that is written into what links with it is the driver's, not the stub's.
    command: list[str | Path] = [
        toolchain.need("g++"),
        "-shared",
        "-Wl,-soname,libcuda.so.1",
        "-x",
        "c",
        "/dev/null",
        "-o",
        draft,
    ]
    outcome = children.run(command, deadline_s=_DEADLINE_S)
    if outcome.code != 0 or outcome.timed_out:
        raise Refusal(
            f"An empty libcuda to link with could not be made: {outcome.output.strip()}", "Check: g++ --version"
        )
    draft.replace(library)
    return library
