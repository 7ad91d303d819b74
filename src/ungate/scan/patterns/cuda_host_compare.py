"""A comparison in host C++ that asks which architecture it runs on.

::

    if (sm == 89 || sm >= 120) {
    cfg.numAttrs = SM >= 90 ? 2 : 0;

    cutlass_heuristic.cpp:174  get_candidate_tiles  passes sm_89 sm_120 sm_121

No ``#if`` shows these: the code is compiled for every architecture and decides when it runs, so a kernel that was
opened may still never be launched. The whole boolean expression is one gate. It refuses where the statement under it
throws or returns an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ungate.model import Form, Sense
from ungate.scan.draft import CHOICE, Draft, Finds, Nothing
from ungate.scan.patterns import pattern
from ungate.source.cuda.file import CudaFile
from ungate.source.cuda.host import comparisons
from ungate.source.cuda.host_flags import flag_tests

__all__ = ["SAMPLES", "find"]

_REFUSES = re.compile(
    r"[\s\\]*\)(?:[\s\\]|//[^\n]*\n)*\{?(?:[\s\\]|//[^\n]*\n)*"
    r"(?:(?:(?:std::)?c(?:err|out)\s*<<|(?:std::)?f?printf\s*\(|\w*LOG\w*\s*\(|std::\w*string(?:stream)?\s)[^;{}]*;[\s\\]*)*(?:throw\b|TLLM_THROW|TLLM_CHECK\w*\s*\(\s*false|FLASHINFER_ERROR|FLASHINFER_CHECK\w*\s*\(\s*false"
    r"|TORCH_CHECK\w*\s*\(\s*false|TVM_FFI_THROW|TVM_FFI_ICHECK\s*\(\s*false|ICHECK\s*\(\s*false|LOG\(FATAL\)|(?:std::)?abort\s*\("
    r"|(?:std::)?exit\s*\(|assert\s*\(\s*(?:false|0)\b|return\s+false\s*;|return\s+cudaError\w+\s*;"
    r"|return\s+(?:cutlass::)?Status::kError\w+|return\s+nullptr\s*;)"
)
_NUMBERS = re.compile(r"[\s\\]*\)?[\s\\]*\?[\s\\]*-?\d[\w.]*[\s\\]*:[\s\\]*-?\d[\w.]*[\s\\]*[;,)}]")
_GIVEN = re.compile(r"(?<![\w.>])major\s*=(?!=)([^;]*);")
_DEVICE = re.compile(r"(?i)capab|prop|arch|sm_|getsm|device")


@pattern("cuda-host-compare", kind="host-cpp-compare", language="cuda", rank=20)
def find(file: CudaFile) -> Iterator[Draft]:
    """Every boolean host expression that compares a capability."""
    if not file.host:
        return
    compared = [*comparisons(file.text, file.skip)]
    read = [("test", each) for each in compared]
    read += [("use", each) for each in flag_tests(file.text, compared, file.skip)]
    for role, found in read:
        if _of_a_toolkit(file.text, found.start, found.end):
            continue
        numbers = _NUMBERS.match(file.text, found.end, found.end + 200) is not None
        refuses = _REFUSES.match(file.text, found.end, found.end + 600)
        yield Draft(
            line=file.line(found.first),
            end_line=file.line(max(found.first, found.last - 1)),
            condition=found.condition,
            text=file.text[found.start : found.end].replace("\\\n", " "),
            form=Form.HOST_EXPRESSION,
            span=(found.start, found.end),
            sense=Sense.REFUSE if refuses and _follows_if(file.text, found.start) else Sense.ALLOW,
            symbol=file.symbol(found.first),
            names=found.names,
            role="choice" if numbers else role,
            note=CHOICE if numbers else "",
        )


def _of_a_toolkit(text: str, start: int, end: int) -> bool:
    """Whether a bare ``major`` was given a toolkit's, runtime's or driver's version just before."""
    if not re.match(r"\s*major\s*[<>=!]=?\s*\d+\s*$", text[start:end]):
        return False
    given = _GIVEN.findall(text, max(0, start - 600), start)
    return (
        bool(given)
        and re.search(r"version|toolkit|runtime|driver", given[-1], re.I) is not None
        and not _DEVICE.search(given[-1])
    )


def _follows_if(text: str, start: int) -> bool:
    return re.search(r"\bif\s*(?:constexpr\s*)?\(\s*$", text[max(0, start - 40) : start]) is not None


_FROM_90 = (90, 100, 103, 107, 110, 120, 121)

SAMPLES = (
    Nothing("matrix-layout", 'bool f(int major) { return a_major == "k" && num_sms >= 90 && smem_per_sm >= 100; }\n'),
    Nothing("toolkit-macro", "int h() {\n  int major = CUDA_VERSION_MAJOR;\n  if (major >= 12) return 1;  // sm_\n}\n"),
    Nothing("two-sm-mma", "int g(int mma_sm) { if (mma_sm == 2) return 1; return 0; }  // prop.major == 9\n"),
    Nothing("a size by ten", "int f(int n, int num_sm) { return n / 10 >= 9 && num_sm / 10 > 12; }  // sm_90\n"),
    Nothing("toolkit-major", "int h(int runtime_major) { return cuda_major >= 12 && driver_major >= 12; }  // arch_\n"),
    Finds(
        "whole-expression",
        "bool f(int sm) {\n  return (sm == 89 || sm >= 120) && fast;\n}\n",
        {2: (89, 120, 121)},
        {2: "(sm == 89 || sm >= 120) && fast"},
    ),
    Finds("ternary", "void f(int SM) {\n  n = SM >= 90 ? 2 : 0;\n}\n", {2: _FROM_90}, {2: "SM >= 90"}),
    Finds(
        "major-of-a-device",
        "int h() {\n  int major = getSMVersion() / 10;\n  if (major >= 12) return 1;\n  return 0;\n}\n",
        {3: (120, 121)},
    ),
    Finds(
        "what a call reads of the device",
        "int h(int n) {\n  auto capacity = GetCudaComputeCapability();\n  if (capacity.first >= 8) return 1;\n"
        "  int32_t version_num = get_sm_version_num();\n"
        "  if (version_num >= 90 && version_num < 100 && n == 90) return 2;\n"
        "  int count = get_num_sm();\n  return count >= 90;\n}\n",
        {3: (80, 86, 87, 88, 89, *_FROM_90), 5: (90,)},
        {5: "version_num >= 90 && version_num < 100 && n == 90"},
    ),
    Finds(
        "the macro of a package in a namespace",
        "template <class T> void f() {\n"
        "  if constexpr (lib::arch::is_major_v<10> || lib::arch::is_major_v<11>) g();\n}\n",
        {2: (100, 103, 107, 110)},
    ),
    Finds(
        "a minor number",
        "int f(int architecture_major, int architecture_minor) {\n  if (architecture_major != 10) throw 1;\n"
        "  return architecture_minor == 3 && n > 4;\n}\n",
        {2: (100, 103, 107), 3: (103,)},
    ),
    Finds(
        "a major that is worked out in place",
        "__device__ void f() {\n  static constexpr bool fast = (__CUDA_ARCH__ / 100) >= 10;\n}\n"
        "int h(int n) {\n  int const sm = getSMVersion();\n  if ((sm / 10) == 12 && n) return 2;\n"
        "  return getSMVersion() / 10 >= 9;\n}\n",
        {2: (100, 103, 107, 110, 120, 121), 6: (120, 121), 7: _FROM_90},
        {2: "(__CUDA_ARCH__ / 100) >= 10"},
    ),
    Finds(
        "a configuration's and a device's",
        "int f(int sm_) {\n"
        "  return config.sm_version / 10 == sm_ / 10 || (config.sm_version / 10 == 10 && sm_ / 10 == 11);\n}\n",
        {2: None},
    ),
    Finds("member", "bool f() {\n  return prop.major == 9;\n}\n", {2: (90,)}),
    Finds(
        "flags that hold the answer",
        "void f(bool x) {\n  bool is_sm8x = props->major == 8 && props->minor >= 0;\n"
        "  bool const is_sm90 = props->major == 9;\n"
        '  TORCH_CHECK(is_sm90 || is_sm8x, "old");\n  if (!is_sm90) { throw 1; }\n  run(is_sm90, x ? 1 : 2);\n}\n'
        "void g(bool is_sm90) { if (is_sm90) h(); }\n",
        {2: (80, 86, 87, 88, 89), 3: (90,), 4: (80, 86, 87, 88, 89, 90), 5: (90,)},
    ),
    Finds(
        "refuses after a message",
        'int f() {\n  if (prop.major < 9) {\n    std::cerr << "at least 9.0"\n              << std::endl;\n'
        "    return cudaErrorNotSupported;\n  }\n  return 0;\n}\n",
        {2: _FROM_90},
    ),
    Finds(
        "refuses",
        'void f(int sm_version) {\n  if (sm_version != 90) {\n    throw E("no");\n  }\n}\n',
        {2: (90,)},
        {2: "sm_version != 90"},
    ),
)
