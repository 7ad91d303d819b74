"""One message on the device for one rank: poisoned outputs, addresses of a call, and how many elements are wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from . import reference
from .plan import realise
from .screen import EPSILON, Message, differences, draw
from .variant import Dtype, Line, Quant, Variant

__all__ = ["GLOBAL_SCALE", "STATIC_SCALE", "Expected", "Trial", "matrix", "rows_of"]

STATIC_SCALE = 0.02
GLOBAL_SCALE = 64.0


class Expected:
    """What every rank has to hold after a call, computed once a message and variant family."""

    def __init__(self, message: Message, variant: Variant) -> None:
        self.message = message
        self.outputs: dict[str, Any] = {}
        dtype = message.dtype
        if not variant.hidden:
            self.outputs["out"] = reference.allreduce(message.inputs, dtype)
            return
        arguments = (message.inputs, message.residual, message.weight, EPSILON, dtype)
        y, self.outputs["residual_out"] = reference.normalised(*arguments, gemma=variant.gemma)
        if variant.norm_out:
            self.outputs["out"] = reference.bits(y, dtype)
        if variant.quant is Quant.FP8_STATIC:
            self.outputs["quant_out"] = reference.fp8_static(y, STATIC_SCALE)
        elif variant.quant is Quant.FP8_TOKEN:
            self.outputs["quant_out"], self.outputs["scale_out"] = reference.fp8_token(y)
        elif variant.quant is Quant.NVFP4:
            self.outputs["quant_out"], self.outputs["scale_out"] = reference.nvfp4(y, GLOBAL_SCALE)


class Trial:
    """Device tensors of one rank. ``offset`` shifts every tensor by that many elements, to misalign it."""

    def __init__(self, expected: Expected, variant: Variant, rank: int, *, offset: int = 0) -> None:
        import torch

        message = expected.message
        self.expected, self.variant, self.rank = expected, variant, rank
        self.keep: list[Any] = []
        self.addresses: dict[str, int] = {}
        self.out: dict[str, Any] = {}
        size = message.dtype.size

        def put(name: str, array: Any) -> None:
            raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            memory = torch.zeros(len(raw) + 16, dtype=torch.uint8, device="cuda")
            view = memory[offset * size : offset * size + len(raw)]
            view.copy_(torch.from_numpy(raw.copy()))
            self.keep.append(memory)
            self.addresses[name] = view.data_ptr()

        put("input", message.inputs[rank])
        if variant.hidden:
            put("residual", message.residual)
            put("weight", message.weight)
            put("scale", np.array([STATIC_SCALE if variant.quant is Quant.FP8_STATIC else GLOBAL_SCALE], np.float32))
            if offset:
                aligned = torch.tensor([STATIC_SCALE], dtype=torch.float32, device="cuda")
                self.keep.append(aligned)
                self.addresses["scale"] = aligned.data_ptr()
        for name, array in expected.outputs.items():
            put(name, np.full(array.nbytes, 0x55, np.uint8))
            start = self.addresses[name] - self.keep[-1].data_ptr()
            self.out[name] = self.keep[-1][start : start + array.nbytes]

    @property
    def rows(self) -> int:
        """Rows, or elements of a plain message."""
        message = self.expected.message
        return message.rows if self.variant.hidden else message.rows * message.hidden

    def poison(self) -> None:
        """Fill the outputs with a pattern that no reduction gives."""
        for tensor in self.out.values():
            tensor.fill_(0x55)

    def wrong(self) -> dict[str, int]:
        """Elements of each output that differ from the reference; waits for the device."""
        counts: dict[str, int] = {}
        dtype = self.expected.message.dtype
        for name, want in self.expected.outputs.items():
            got = self.out[name].cpu().numpy().view(want.dtype).reshape(want.shape)
            if name in ("quant_out", "scale_out"):
                same = got == want
                if got.dtype == np.float32:
                    same |= np.isnan(got) & np.isnan(want)
                counts[name] = int((~same).sum())
            else:
                counts[name] = differences(got, want, dtype)
        return counts

    def raw(self) -> bytes:
        """All outputs as bytes, to compare ranks with each other."""
        return b"".join(self.out[name].cpu().numpy().tobytes() for name in sorted(self.out))


def rows_of(hidden: int, limit: int) -> tuple[int, ...]:
    """Row counts to try: one, few, and as many as fit into ``limit`` elements."""
    most = max(1, min(37, limit // max(hidden, 1)))
    return tuple(sorted({1, min(3, most), most}))


def matrix(worlds: tuple[int, ...]) -> Iterator[tuple[Variant, int]]:
    """Kernels to check and the hidden size (or element count) to check them with.

    Every world, dtype, format and number of shots; hidden sizes, parts, block sizes and epilogues in turn.
    """
    hiddens = (4096, 4095, 127, 1, 1024, 8200, 2050, 5120, 257, 64, 3, 8192)
    sizes = (1, 4096, 2, 65537, 3, 1000, 8, 12345, 16384)
    turn = 0
    for world in worlds:
        for dtype in Dtype:
            for line in Line:
                for shots in (1, 2) if world >= 4 else (1,):
                    hidden = hiddens[turn % len(hiddens)]
                    aligned = hidden * dtype.size % 16 == 0
                    threads = (128, 256, 512)[turn % 3]
                    base = realise(_choice(line, shots, threads), world, dtype, 1, hidden=hidden, aligned=aligned)
                    if turn % 2 and hidden >= 1024:
                        base = replace(base, split=base.split * 2)
                    yield replace(base, gemma=turn % 5 == 4), hidden
                    plain = realise(_choice(line, shots, threads), world, dtype, 1, aligned=turn % 3 != 2)
                    yield replace(plain, vec=1 + turn % 2), sizes[turn % len(sizes)]
                    turn += 1
    for quant in (Quant.FP8_STATIC, Quant.FP8_TOKEN, Quant.NVFP4):
        for dtype, line, split in (
            (Dtype.BFLOAT16, Line.LL8, 1),
            (Dtype.FLOAT16, Line.F16, 4),
            (Dtype.BFLOAT16, Line.F16, 2),
            (Dtype.FLOAT32, Line.LL8, 4),
        ):
            yield Variant(2, dtype, line, 1, 4096, 256, split, quant=quant, norm_out=split == 4), 4096


def _choice(line: Line, shots: int, threads: int) -> Any:
    from .plan import Choice

    return Choice(line=int(line), shots=shots, threads=threads)


def messages(variant: Variant, size: int, kinds: tuple[str, ...], seed: int, limit: int) -> Iterator[Message]:
    """Messages for one kernel."""
    for number, kind in enumerate(kinds):
        if variant.hidden:
            rows = rows_of(variant.hidden, limit)
            yield draw(kind, variant.world, rows[number % len(rows)], variant.hidden, variant.dtype, seed + number)
        else:
            yield draw(kind, variant.world, 1, size, variant.dtype, seed + number)
