"""Small sources of several files, scanned by one process."""

from __future__ import annotations

from pathlib import Path

from ungate.host.packages import below
from ungate.model import Gate
from ungate.scan import scan


def gates_of(root: Path, **files: str) -> dict[tuple[str, int], Gate]:
    top = root / "p"
    top.mkdir()
    for name, text in files.items():
        (top / f"{name}.py").write_text(text)
    result = scan(below(top), use_cache=False, jobs=1)
    assert not result.unread
    return {(Path(gate.file).stem, gate.line): gate for gate in result.gates}


def passes_of(found: dict[tuple[str, int], Gate]) -> dict[tuple[str, int], list[int] | None]:
    return {place: [*gate.passes] if gate.passes.decided else None for place, gate in found.items()}
