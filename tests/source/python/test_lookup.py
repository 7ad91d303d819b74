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


def test_the_names_beside_a_long_table_are_bound_without_parsing_it() -> None:
    rows = b"".join(b'    "kernel_%d": {"arch": "sm_90a"},\n' % index for index in range(200))
    text = b"import os\nARCHES = ('sm_90a',)\nTABLE = {\n" + rows + b"}\nAFTER = ARCHES\nOTHER: dict = {1: 2}\n"
    module = PythonModule("m.py", "m", text)
    pieces = [(piece.name, text[piece.start : piece.end].split(b"\n")[0], piece.line) for piece in module.pieces]
    assert pieces == [("", b"import os", 1), ("TABLE", b"TABLE = {", 3), ("", b"AFTER = ARCHES", 205)]
    assert [module.lookup(name)[0].line for name in ("os", "ARCHES", "AFTER", "OTHER")] == [1, 2, 205, 206]
    assert module.pieces[1].start not in module._parsed
    assert module.lookup("TABLE")[0].line == 3 and module.lookup("kernel_7") == ()


def test_what_else_stands_on_the_line_of_a_long_table_is_bound_too() -> None:
    rows = b"    1,\n" * 800
    module = PythonModule("m.py", "m", b"TABLE = [\n" + rows + b"]; after = 1\n")
    assert [piece.name for piece in module.pieces] == [""]
    assert module.lookup("after")[0].line == 802
    module = PythonModule("m.py", "m", b"TABLE = [\n" + rows + b"    (inner := 3),\n]\n")
    assert module.lookup("inner")[0].line == 802
