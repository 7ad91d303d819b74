from __future__ import annotations

import ast
from pathlib import Path

import pytest

from ungate.host.packages import below
from ungate.scan import scan
from ungate.source.python import module as modules
from ungate.source.python.thin import thinned

_FUNCTION = '''\
def launch(self, x, out,
           *, stream=None):
    """Doc with a line
that = looks like code
    """
    tile = 128; stages = 4
    limit = 9
    layout = make_layout(
        (tile, stages),
        stride=(1, tile),
    )
    fast = False
    if device_major(x) >= limit:
        fast = True
    else:
        fast = False
    for index in range(
        stages
    ):
        copy(index)
        copy(layout)
    with pool() as held:
        held.fill(0)
    text = f"""
  {layout}
"""
    if not fast and (
        index > 3
    ):
        raise ValueError("no")
    return out
'''


def _long(text: str, lines: int) -> str:
    head, rest = text.split("    tile = 128", 1)
    return (
        head
        + "".join(f"    step_{number} = run(step_{number - 1},\n        {number})\n" for number in range(lines))
        + ("    tile = 128" + rest)
    )


def test_what_has_nothing_to_do_with_the_architecture_is_left_out_and_lines_stay() -> None:
    data = _FUNCTION.encode()
    thin = thinned(data, 0, len(data), frozenset())
    assert thin is not None
    assert thin.count(b"\n") == data.count(b"\n")
    kept = {(node.lineno, ast.unparse(node)) for node in ast.walk(ast.parse(thin)) if isinstance(node, ast.stmt)}
    whole = {(node.lineno, ast.unparse(node)) for node in ast.walk(ast.parse(data)) if isinstance(node, ast.stmt)}
    said = {text for _, text in kept & whole}
    assert {"limit = 9", "fast = False", "fast = True", "raise ValueError('no')", "return out"} <= said
    assert not any("make_layout" in text or "held.fill" in text or "copy(" in text for _, text in kept)


def test_a_name_that_matters_elsewhere_is_kept_on_request() -> None:
    data = _FUNCTION.encode()
    thin = thinned(data, 0, len(data), frozenset({b"make_layout"}))
    assert thin is not None and b"layout = make_layout(\n        (tile, stages)," in thin and b"copy(layout)" in thin


@pytest.mark.parametrize("lines", [0, 200])
def test_a_long_function_has_the_gates_that_it_has_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: int
) -> None:
    root = tmp_path / "kernels"
    root.mkdir()
    helper = "import torch\n\ndef device_major(x):\n    return torch.cuda.get_device_capability(x)[0]\n\n"
    (root / "launch.py").write_text(helper + _long(_FUNCTION, lines))
    thin = scan(below(root), use_cache=False, jobs=1).gates
    monkeypatch.setattr(modules, "_LONG", 1 << 30)
    assert thin == scan(below(root), use_cache=False, jobs=1).gates
    assert [(gate.condition, list(gate.passes)) for gate in thin] == [
        ("device_major(x) >= limit", [90, 100, 103, 107, 110, 120, 121]),
        ("fast", [90, 100, 103, 107, 110, 120, 121]),
    ]


def test_a_cut_that_is_wrong_is_no_loss(tmp_path: Path) -> None:
    root = tmp_path / "kernels"
    root.mkdir()
    odd = "def f(major):\n" + "    x = 1 + \\\n    2\n" * 100 + "    if major == 9 and \\\n    x:\n        return 1\n"
    (root / "odd.py").write_text(
        "from torch.cuda import get_device_capability\nmajor = get_device_capability()[0]\n" + odd
    )
    (gate,) = (each for each in scan(below(root), use_cache=False, jobs=1).gates if each.line > 200)
    assert gate.condition == "major == 9"
