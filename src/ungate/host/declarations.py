"""Ask nvcc whether the toolkit's headers declare a function for a target; its answers are kept.

The headers declare many intrinsics from an architecture on. The question is put as a using-declaration, which needs
neither the arguments nor the number of overloads.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ungate.errors import Refusal
from ungate.host import children, toolchain
from ungate.host.folders import cache_dir
from ungate.host.keeping import keep
from ungate.model import Target

__all__ = ["available", "declared"]

_DEADLINE_S = 300.0
_HEADERS = ("cooperative_groups.h", "cuda_fp16.h", "cuda_bf16.h", "cuda_fp8.h", "cuda_fp4.h", "cuda_pipeline.h")
_ERROR = re.compile(r"\bprobe\.cu\((?P<line>\d+)\): error")
_NAME = re.compile(r"[A-Za-z_]\w*")


def available() -> bool:
    """Whether there is an nvcc to ask."""
    return toolchain.find("nvcc") is not None


def declared(names: Sequence[str], target: Target) -> frozenset[str] | None:
    """Those of ``names`` that the headers declare for the target; None where this nvcc does not know the target.

    Refusal without an nvcc, where it does not end in time, and where it fails for another reason.
    """
    nvcc = toolchain.need("nvcc")
    version = toolchain.tool("nvcc")
    store = cache_dir() / "declarations" / f"nvcc-{version.version if version else 'unknown'}-{target}.json"
    kept = _load(store)
    missing = sorted({name for name in names if name not in kept and _NAME.fullmatch(name)})
    if missing:
        found = _ask(nvcc, missing, target)
        if found is None:
            return None
        kept = {**_load(store), **found}
        keep(store, json.dumps(kept, separators=(",", ":")).encode())
    return frozenset(name for name in names if kept.get(name))


def _load(store: Path) -> dict[str, bool]:
    try:
        content = json.loads(store.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _ask(nvcc: Path, names: Sequence[str], target: Target) -> dict[str, bool] | None:
    lines = [f"#if __has_include(<{header}>)\n#include <{header}>\n#endif" for header in _HEADERS]
    head = "\n".join(lines).split("\n")
    body = [f"namespace ungate_probe_{number} {{ using ::{name}; }}" for number, name in enumerate(names)]
    with tempfile.TemporaryDirectory(prefix="ungate-nvcc-") as folder:
        source = Path(folder) / "probe.cu"
        source.write_text("\n".join([*head, *body]) + "\n", encoding="utf-8")
        command: list[str | Path] = [nvcc, "-ptx", f"-arch={target}", "-Xcudafe", "--error_limit=100000"]
        log = Path(folder) / "log"
        outcome = children.run([*command, source, "-o", Path(folder) / "probe.ptx"], deadline_s=_DEADLINE_S, log=log)
        said = log.read_text(encoding="utf-8", errors="replace")  # all of it: the outcome holds the end alone
    if outcome.timed_out:
        raise Refusal(f"nvcc did not end within {_DEADLINE_S:.0f} s for {target}.", "Run the command again.")
    wrong = {int(error["line"]) - len(head) - 1 for error in _ERROR.finditer(said)}
    if outcome.code != 0 and not wrong:
        if "Unsupported gpu architecture" in said or "is not defined for option" in said:
            return None
        raise Refusal(
            f"{nvcc} cannot compile a file that includes the toolkit's headers: {said.strip()[:300]}",
            "Complete the toolkit: pip install 'ungate[toolchain]'",
        )
    return {name: number not in wrong for number, name in enumerate(names)}
