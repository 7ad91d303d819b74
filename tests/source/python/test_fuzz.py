"""Whatever the text, reading it ends in gates or in a reason, never in a crash."""

from __future__ import annotations

import ast
import warnings

from hypothesis import given, settings
from hypothesis import strategies as st

from ungate.scan.patterns import patterns
from ungate.source.python.evaluate import Evaluator
from ungate.source.python.file import PythonFile
from ungate.source.python.module import PythonModule
from ungate.source.python.outline import pieces
from ungate.source.python.world import World
from ungate.source.reader import Unreadable

_FRAGMENTS = (
    "import torch\n",
    "major, minor = torch.cuda.get_device_capability()\n",
    "if major == 9:\n    x = 1\n",
    "def is_sm90():\n    return torch.cuda.get_device_capability()[0] == 9\n",
    "class A:\n    arch = 90\n    def f(self):\n        if self.arch >= 90:\n            raise ValueError\n",
    "flag = is_sm90() and flag\n",
    'x = """\nif major == 9:\n"""\n',
    "f(supported_major_versions=[9, 10])\n",
    "    if sm_version > 90: pass\n",
    "is_sm90 = is_sm90\n",
    "'''\n",
    '"""\n',
    "(\n",
    "else:\n",
    "@functools.cache\n",
    "def loop(a):\n    return loop(a) or major == 10\n",
    "\\\n",
    "\t",
    "é\n",
    "\0",
)


def _read(data: bytes) -> None:
    world = World(())
    try:
        module = PythonModule("a.py", "a", data)
        world.add(module)
        file = PythonFile(module, Evaluator(world))
        for pattern in patterns("python"):
            for draft in pattern.find(file):
                assert 0 <= draft.span[0] <= draft.span[1] <= len(data)
                assert 1 <= draft.line <= draft.end_line <= data.count(b"\n") + data.count(b"\r") + 1
    except Unreadable as error:
        assert str(error)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(_FRAGMENTS), max_size=8))
def test_fragments_in_any_order(parts: list[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        _read("".join(parts).encode())


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _read(data)


@settings(max_examples=60, deadline=None)
@given(st.integers(min_value=0, max_value=400))
def test_a_text_that_ends_anywhere(length: int) -> None:
    text = "".join(part for part in _FRAGMENTS[:10] if not part.startswith(" "))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _read(text.encode()[:length])


def test_pieces_cover_a_file_and_parse_alone() -> None:
    source = (
        b'"""Doc.\n\ndef not_code():\n"""\nimport a\n\n@deco(\n    1,\n)\ndef f():\n    """x\n\n'
        b"y = 1\n    \"\"\"\n    return 1\n\nclass C:\n    '''d'''\n    def g(self): ...\n"
    )
    found = pieces(source, 0, len(source), 1)
    assert [(piece.kind, piece.name) for piece in found] == [("other", ""), ("def", "f"), ("class", "C")]
    assert b"".join(source[piece.start : piece.end] for piece in found) == source
    for piece in found:
        ast.parse(source[piece.start : piece.end])
        assert source[: piece.start].count(b"\n") + 1 == piece.line
