"""Which function holds an offset, on the layouts that real kernels have."""

from __future__ import annotations

import pytest

from ungate.source.cuda.functions import Locator, functions

CASES = {
    "a kernel with attributes": (
        "template <typename T, int N = 4>\n__global__ void __launch_bounds__(256, 2)\n"
        "    kernel(T* out, T const* in) {\n  @\n}\n",
        "kernel",
    ),
    "a method": ("struct S {\n  S() : a(1), b{2} { x(); }\n  int f(int a) const noexcept {\n    @\n  }\n};\n", "f"),
    "a constructor with initialisers": ("S::S(int a, int b) : a_(a), b_(g(b)) {\n  @\n}\n", "S::S"),
    "an operator": ("struct F {\n  void operator()(int a) {\n    @\n  }\n};\n", "operator()"),
    "between functions": ("void f() {\n}\n// @\nvoid g() {\n}\n", ""),
    "in a namespace": ("namespace n {\nvoid f() {\n}\n// @\n}  // namespace n\n", ""),
    "in an initialiser": ("int table[] = {\n  call(1), @\n};\n", ""),
    "after a string with a brace": ('void f() {\n  log("}");\n}\nvoid g() {\n  @\n}\n', "g"),
    "a brace that closes in another branch": (
        "void f(int a) {\n#if A\n  if (a) {\n#else\n  {\n#endif\n    x();\n  }\n  @\n}\nvoid g() {}\n",
        "f",
    ),
    "the function after one with two heads": (
        "#if A\nvoid f(int a) {\n#else\nvoid f(long a) {\n#endif\n  x();\n}\nvoid g(int b) {\n  @\n}\n",
        "g",
    ),
    "a lambda inside": ("void f() {\n  auto l = [&](int a) {\n    @\n  };\n}\n", "f"),
    "extern C": ('extern "C" {\n__global__ void k(int* p) {\n  @\n}\n}\n', "k"),
    "a macro before the name": ("CUTLASS_HOST_DEVICE\nstatic bool f(int a) {\n  @\n}\n", "f"),
    "a trailing return type": ("auto f(int a) -> decltype(g(a)) {\n  @\n}\n", "f"),
}


@pytest.mark.parametrize(("source", "name"), CASES.values(), ids=CASES.keys())
def test_the_function_at_an_offset(source: str, name: str) -> None:
    offset = source.index("@")
    found = Locator(source).at(offset)
    assert (found.name if found else "") == name
    whole = functions(source).at(offset)
    assert (whole.name if whole else "") == name


def test_kernels_are_told_from_helpers() -> None:
    source = "__device__ void h() {\n}\n__global__ void k() {\n}\n__global__ void declared();\n"
    assert [(each.name, each.kernel) for each in functions(source).items] == [("h", False), ("k", True)]


def test_asking_in_any_order_gives_the_same_answer() -> None:
    source = "".join(f"void f{index}(int a) {{\n  x({index});\n}}\n" for index in range(40))
    locator = Locator(source)
    offsets = [source.index(f"x({index})") for index in range(40)]
    for index in (30, 3, 39, 0, 17, 30):
        found = locator.at(offsets[index])
        assert found is not None and found.name == f"f{index}"
