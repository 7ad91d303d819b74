"""What shares of the files tell each other, and that letting go of what was read changes no answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from ungate.model import Gate
from ungate.scan import shard
from ungate.scan.select import Source
from ungate.scan.shard import Shard
from ungate.scan.told import imports, origins_of

_FILES = {
    "pkg/__init__.py": "from .utils import is_new\n",
    "pkg/utils.py": "import torch\n\ndef is_new():\n    return torch.cuda.get_device_capability()[0] >= 10\n\n"
    "def is_available():\n    return torch.cuda.get_device_capability() == (12, 0)\n",
    "pkg/kernels/__init__.py": "",
    "pkg/kernels/a.py": "from pkg import is_new\n\nENABLED = is_new()\n\n"
    "def run():\n    if is_new():\n        return 1\n",
    "pkg/kernels/b.py": "from .a import ENABLED\n\ndef run():\n    if ENABLED:\n        return 2\n",
    "pkg/kernels/c.py": "import torch\n\ndef run():\n    if torch.cuda.is_available():\n        return 3\n",
    "pkg/kernels/d.py": "from pkg import utils\n\n"
    "def run():\n    if not utils.is_available():\n        raise ValueError\n",
}


def _gates(root: Path) -> list[Gate]:
    sources = [Source(str(root), file, "pkg", "1", "python", (0, 0, 0), False) for file in _FILES]
    share = Shard(sources, [(str(root), file) for file in _FILES])
    surveyed = share.survey()
    told = surveyed.answers
    for turn in range(6):
        if turn and not told:
            break
        told = share.extend(told, surveyed.stars)
    return share.find(None).gates


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for file, text in _FILES.items():
        path = tmp_path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_an_answer_is_followed_to_where_it_can_be_imported_from(tree: Path) -> None:
    found = {(gate.file, gate.line): tuple(gate.passes) for gate in _gates(tree)}
    assert found[("pkg/kernels/a.py", 6)] == (100, 103, 107, 110, 120, 121)
    assert found[("pkg/kernels/b.py", 4)] == (100, 103, 107, 110, 120, 121)
    assert found[("pkg/kernels/d.py", 4)] == (120,)


def test_a_name_that_is_not_imported_from_the_answer_is_none(tree: Path) -> None:
    assert not [gate for gate in _gates(tree) if gate.file == "pkg/kernels/c.py"]


def test_letting_go_of_every_tree_after_each_file_changes_no_gate(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = _gates(tree)
    monkeypatch.setattr(shard, "_HELD", 0)
    assert _gates(tree) == kept
    assert len(kept) > 4


def test_origins_go_on_through_packages_and_stars() -> None:
    known = origins_of({}, {(b"is_new", b"utils")}, {(b"utils", b"pkg"), (b"pkg", b"api")})
    assert known == {b"is_new": frozenset({b"utils", b"pkg", b"api"})}
    assert origins_of(known, {(b"is_new", b"")}, ()) == {b"is_new": None}
    assert origins_of(known, {(b"is_new", b"other")}, ())[b"is_new"] == frozenset({b"utils", b"pkg", b"api", b"other"})


def test_imports_are_read_from_the_text() -> None:
    text = b"from .utils import a\n    from pkg.core import *\nimport os\nx = 'from y import z'\nfrom . import b\n"
    assert list(imports(text)) == [(b"utils", False), (b"core", True)]
