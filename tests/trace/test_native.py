"""C++ and CUDA text as units, and what is reached from what Python calls."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ungate.trace.chain import Trace
from ungate.trace.native import read_native

Of = Callable[..., Trace]

SOURCE = b"""
#include "k/one.cuh"  // twice
// void commented() {
const char* text = "void quoted() {";
namespace a::b {
template <typename T, int N = (3 > 2)>
__global__ void __launch_bounds__(1024, 1)
    kernel(Params<T> p) {
  helper<T>(p);
}
struct Runner { void run() { launch(); } };
void launch() { kernel<float><<<1, 1>>>({}); }
#define DISPATCH(x) launch(x)
using Alias = Runner;
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(go, a::b::launch);
"""


def test_units_exports_and_includes() -> None:
    native = read_native("x.cu", SOURCE)
    assert [(unit.name, unit.kernel) for unit in native.units] == [
        ("text", False),
        ("kernel", True),
        ("run", False),
        ("Runner", False),
        ("launch", False),
        ("Alias", False),
        ("DISPATCH", False),
    ]
    assert native.exports == {"go": ("launch", 16)}
    assert native.includes == (("k/one.cuh", 2),)
    assert native.balanced
    around = native.around(9)
    assert around is not None and (around.name, around.first, around.last) == ("kernel", 6, 10)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"void f() {\n#if A\n  if (x) {\n#else\n  if (y) {\n#endif\n  }\n", id="a brace in both branches"),
        pytest.param(b"}\n", id="a brace too many"),
    ],
)
def test_unbalanced_braces_prove_nothing(text: bytes) -> None:
    assert not read_native("x.cuh", text).balanced


@pytest.mark.parametrize("text", [b"", b"\0\xff\xfe", b"#if\n#endif\n#endif\n#elif x", b"{{{{", b"/* never closed {"])
def test_broken_text_is_read_without_an_error(text: bytes) -> None:
    read_native("x.cuh", text)


def test_torch_and_pybind_bindings() -> None:
    text = b'TORCH_LIBRARY(x, m) { m.def("run(Tensor a) -> ()", &run_impl); m.impl("step", torch::kCUDA, &step_impl); }'
    assert {name: function for name, (function, _) in read_native("b.cpp", text).exports.items()} == {
        "run": "run_impl",
        "step": "step_impl",
    }


MODULE = {
    "lib/data/csrc/a.cu": """
        #include "lib/a.cuh"
        void a() { shared(); start_a(); other(); }
        TVM_FFI_DLL_EXPORT_TYPED_FUNC(a, a);
        """,
    "lib/data/csrc/b.cu": """
        #include "lib/b.cuh"
        void b() { shared(); start_b(); }
        void other() { start_other(); }
        TVM_FFI_DLL_EXPORT_TYPED_FUNC(b, b);
        """,
    "lib/data/include/lib/a.cuh": """
        __device__ void shared() {}
        __global__ void kernel_a() {}
        void start_a() { kernel_a<<<1, 1>>>(); }
        """,
    "lib/data/include/lib/b.cuh": """
        __device__ void shared() { only_b(); }
        __device__ void only_b() {}
        __global__ void kernel_b() {}
        __global__ void kernel_other() {}
        void start_b() { kernel_b<<<1, 1>>>(); }
        void start_other() { kernel_other<<<1, 1>>>(); }
        """,
}


def test_a_name_is_looked_up_in_its_own_translation_unit_first(trace: Of) -> None:
    made = trace(MODULE)
    module = made.translations.translation(["lib/data/csrc/a.cu", "lib/data/csrc/b.cu"])
    reached = {(unit.file.rpartition("/")[2], unit.name) for unit in module.reached(["a"])}
    assert ("a.cuh", "kernel_a") in reached
    assert ("b.cuh", "shared") not in reached and ("b.cuh", "only_b") not in reached
    assert ("b.cuh", "kernel_b") not in reached


def test_a_function_of_another_source_is_followed_there(trace: Of) -> None:
    made = trace(MODULE)
    module = made.translations.translation(["lib/data/csrc/a.cu", "lib/data/csrc/b.cu"])
    assert "kernel_other" in {unit.name for unit in module.reached(["a"])}


def test_without_bindings_the_functions_of_the_sources_are_what_is_called(trace: Of) -> None:
    made = trace({"lib/csrc/c.cpp": 'extern "C" int c(int x) { return x; }\nstatic int d = 3;\n'})
    assert set(made.translations.translation(["lib/csrc/c.cpp"]).exports) == {"c"}
