"""Inline PTX: where it is, what its template and operands are, and the entries it is judged in."""

from __future__ import annotations

import pytest

from ungate.source.cuda.assembly import Operand, assemblies, entries


def test_a_statement_with_outputs_and_inputs() -> None:
    text = 'void f() {\n  asm volatile("add.u32 %0, %1, 5;\\n" : "=r"(x) : "r"(g(a, b[1])) : "memory");\n}\n'
    (found,) = assemblies(text)
    assert text[found.start : found.end] == text[text.index("asm") : text.index(";\n}")]
    assert found.template == "add.u32 %0, %1, 5;\n"
    assert found.operands == (Operand("r", "x"), Operand("r", "g(a, b[1])"))


def test_literals_are_joined_and_comments_between_them_skipped() -> None:
    text = '__asm__ __volatile__("{\\n\\t"  // begin\n  "mov.b32 %0, %%laneid;\\n" /* it */ "}" : "=r"(lane));'
    (found,) = assemblies(text)
    assert found.template == "{\n\tmov.b32 %0, %%laneid;\n}"


def test_no_outputs_and_a_qualified_name_among_the_operands() -> None:
    (found,) = assemblies('asm volatile("st.shared.b32 [%0], %1;" ::"r"(std::cast<int>(p)), "n"(0x10));')
    assert found.operands == (Operand("r", "std::cast<int>(p)"), Operand("n", "0x10"))


def test_a_raw_string() -> None:
    (found,) = assemblies('asm volatile(R"ptx(\n  mov.b32 %0, 1; // (")\n)ptx" : "=r"(x));')
    assert found.template == '\n  mov.b32 %0, 1; // (")\n'
    assert found.operands == (Operand("r", "x"),)


@pytest.mark.parametrize(
    "text",
    [
        '// asm volatile("trap;");\n',
        '/* asm("trap;"); */\n',
        'const char* s = "asm(\\"trap;\\")";\n',
        "int plasm(int);\n",
        "void f() { asm volatile( \n",
    ],
)
def test_what_is_none(text: str) -> None:
    assert list(assemblies(text)) == []


def test_a_template_of_the_preprocessor_is_not_known() -> None:
    (found,) = assemblies('#define LOAD(kind) asm volatile("ld." #kind " %0, [%1];" : "=r"(x) : "l"(p))\n')
    assert found.template is None and entries(found) == ()


def test_an_entry_declares_its_registers() -> None:
    (found,) = assemblies(
        'asm("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p mov.b64 %0, %1; }" : "=l"(a) : "l"(b), "r"(c));'
    )
    (entry,) = entries(found)
    assert entry.startswith(".reg .b64 ungate_0;\n.reg .b64 ungate_1;\n.reg .b32 ungate_2;\n{\n{ .reg .pred p;")
    assert "@p mov.b64 ungate_0, ungate_1;" in entry


def test_without_operands_a_percent_sign_is_a_register() -> None:
    (plain,) = assemblies('asm("mov.u32 %r1, %laneid;");')
    assert "mov.u32 %r1, %laneid;" in entries(plain)[0]
    (doubled,) = assemblies('asm("mov.u32 %0, %%laneid;" : "=r"(x));')
    assert "mov.u32 ungate_0, %laneid;" in entries(doubled)[0]


def test_immediates_are_numbers_or_tried() -> None:
    (known,) = assemblies('asm("cp.async.wait_group %0;" :: "n"(3));')
    assert [entry.split("\n")[1] for entry in entries(known)] == ["cp.async.wait_group 3;"]
    (open_,) = assemblies('asm("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(N));')
    assert "setmaxnreg.inc.sync.aligned.u32 32;" in [entry.split("\n")[1] for entry in entries(open_)]


def test_operands_that_are_not_there_or_not_known() -> None:
    (missing,) = assemblies('asm("mov.b32 %0, %1;" : "=r"(x));')
    (memory,) = assemblies('asm("prefetch %0;" :: "m"(x));')
    assert entries(missing) == () and entries(memory) == ()


def test_offsets_are_of_the_whole_file() -> None:
    text = 'asm("a;");\nvoid f() { asm("b;"); }\n'
    (found,) = assemblies(text, 11, len(text))
    assert found.template == "b;" and text[found.start :].startswith('asm("b;")')
