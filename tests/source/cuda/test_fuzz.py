"""The readers on anything at all: no crash, and time that grows with the size."""

from __future__ import annotations

import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ungate.source.cuda.conditions import Conditions
from ungate.source.cuda.file import CudaFile
from ungate.source.cuda.functions import functions
from ungate.source.cuda.host import comparisons
from ungate.source.cuda.reader import READER

_PIECES = (
    b"#if __CUDA_ARCH__ >= 900\n",
    b"#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)\n",
    b"#ifdef X_ENABLED\n",
    b"#ifndef\n",
    b"#else\n",
    b"#endif\n",
    b"#define X_ENABLED (__CUDA_ARCH__ \\\n >= 800)\n",
    b"#if (((\n",
    b"#if \\\n",
    b"__global__ void k(int a) {\n",
    b"if (sm >= 90 && !(x || prop.major == 9)) {",
    b"switch (sm) { case 90: ",
    b"}\n",
    b"};",
    b"/* #if ",
    b"*/",
    b"// \\\n",
    b'"#if ',
    b'R"x(',
    b"'",
    b"\x00",
    b"\xff\xfe\xef\xbb\xbf",
    b"a < b > c ? arch::Sm90 : is_major_v<10>",
    b"{% if sm %}",
)
_FILES = st.one_of(st.binary(max_size=400), st.lists(st.sampled_from(_PIECES), max_size=40).map(b"".join))


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=_FILES, cut=st.integers(min_value=0, max_value=400))
def test_anything(data: bytes, cut: int) -> None:
    data = data[: len(data) - cut] if cut < len(data) else data
    facts = READER.gather("any.cu", data)
    index = READER.settle([("any.cu", facts)] if facts else [])
    READER.concerns(data)
    file = READER.read("any.cu", data, index)
    text = data.decode("latin-1")
    for found in functions(text).items:
        assert 0 <= found.start <= found.open < found.end <= len(text)
    seen = file or CudaFile("any.cu", text, Conditions())
    for branch in seen.reading.branches:
        assert branch.directive.start < branch.start <= branch.end <= len(text)
        start, end = branch.directive.span
        assert branch.directive.start < start <= end <= branch.directive.end
        seen.conditions.judge(branch.directive.text)
        seen.symbol(branch.directive.start)
    for host in comparisons(text, seen.skip):
        assert 0 <= host.start <= host.first < host.last <= len(text)


def _seconds(data: bytes) -> float:
    begun = time.process_time()
    file = CudaFile("long.cu", data.decode("latin-1"), Conditions())
    READER.gather("long.cu", data)
    for branch in file.reading.branches:
        file.conditions.judge(branch.directive.text)
        file.symbol(branch.start)
    for _ in comparisons(file.text, file.skip):
        pass
    return time.process_time() - begun


@pytest.mark.parametrize(
    "piece",
    [
        b"sm >= 90 ",
        b'"/*" ',
        b"/**/ ",
        b"if (sm >= 90) { x; } ",
        b"((",
        b"a<b,",
        b" ",
        b"#if __CUDA_ARCH__ >= 900\n#endif\n",
        b"#if __CUDA_ARCH__ >= 900\n",
        b"#if 1 \\\n",
        b"void f(int a) {\n",
        b"void f(int a) { if (a) { g(); } }\n",
        b"// \\\n",
        b"#define A(x) \\\n",
    ],
    ids=lambda piece: piece.decode().strip() or "blank",
)
def test_time_is_linear(piece: bytes) -> None:
    small, large = piece * (20_000 // len(piece)), piece * (160_000 // len(piece))
    first = max(_seconds(small), 0.02)
    assert _seconds(large) < 8 * first * 4, "eight times the size takes far more than eight times as long"


def test_one_line_of_ten_megabytes() -> None:
    data = b"int x = 0; " * 950_000 + b"\n#if __CUDA_ARCH__ >= 900\n#endif\n"
    assert len(data) > 10_000_000
    assert _seconds(data) < 20
