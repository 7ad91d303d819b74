"""Names are found wherever their statement stands, and looking for them comes to an end."""

from __future__ import annotations

from ungate.source.python.module import PythonModule


def test_a_name_between_statements_does_not_hold_up_the_search() -> None:
    # two statements on one line: such a module is parsed as a whole, and comments lie between its pieces
    text = b"a = 1; b = 2\n# flag is told below\nif a:\n  x = (\n1)\n# flag again\nflag = b\n"
    module = PythonModule("m.py", "m", text)
    module._whole()
    (found,) = module.lookup("flag")
    assert found.line == 7 and module.lookup("told") == ()
