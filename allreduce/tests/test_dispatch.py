"""Which launch a call becomes, with a workspace that records instead of launching."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ungate_allreduce.dispatch import run_fused, run_plain
from ungate_allreduce.errors import Unsupported
from ungate_allreduce.layout import Layout
from ungate_allreduce.plan import Choice, seed
from ungate_allreduce.variant import Dtype, Line, Quant, Variant


class Tensor:
    def __init__(self, elements: int, address: int = 4096) -> None:
        self.elements, self.address, self.copied = elements, address, 0

    def numel(self) -> int:
        return self.elements

    def data_ptr(self) -> int:
        return self.address

    def copy_(self, other: Tensor) -> None:
        self.copied = other.address

    def clone(self) -> Tensor:
        return Tensor(self.elements, self.address + (1 << 20))


class Recorder:
    def __init__(
        self, choice: Choice, *, max_bytes: int = 64 << 10, fallback: Any = None, transport: str = "host"
    ) -> None:
        self.choice, self.fallback, self.world = choice, fallback, 2
        self.layout, self.slots = Layout(2, max_bytes), SimpleNamespace(transport=transport)
        self.launched: list[tuple[Variant, int, dict[str, int]]] = []
        self.reduced: list[int] = []

    def choose(self, dtype: Dtype, pattern: str, size: int) -> Choice:
        return self.choice

    def seed(self, size: int) -> Choice:
        return seed(2, size, nccl_from=None)

    def launch(self, variant: Variant, rows: int, addresses: dict[str, int], *, epsilon: float = 0.0) -> None:
        self.launched.append((variant, rows, addresses))

    def reduce_by_fallback(self, tensor: Tensor) -> None:
        self.reduced.append(tensor.address)


def fused(workspace: Any, *, rows: int = 2, hidden: int = 4096, address: int = 4096, quant: Quant = Quant.NONE) -> None:
    tensor, weight = Tensor(rows * hidden, address), Tensor(hidden)
    run_fused(
        workspace, tensor, tensor, weight, 1e-6, Dtype.BFLOAT16, rows, hidden, gemma=False, quant=quant,
        out=tensor, residual_out=tensor, scale=None, scale_out=None, swizzled=False,
    )  # fmt: skip


def test_the_choice_becomes_the_kernel() -> None:
    workspace = Recorder(Choice(line=int(Line.F16), threads=256, split=2))
    fused(workspace)
    ((variant, rows, addresses),) = workspace.launched
    assert (variant.line, variant.threads, variant.split, variant.hidden, rows) == (Line.F16, 256, 2, 4096, 2)
    assert variant.aligned
    assert not variant.push
    assert set(addresses) == {"input", "residual", "weight", "residual_out", "out"}


def test_a_quantised_call_writes_the_quantised_row_only() -> None:
    workspace = Recorder(Choice())
    fused(workspace, quant=Quant.FP8_STATIC)
    ((variant, _, addresses),) = workspace.launched
    assert not variant.norm_out
    assert "quant_out" in addresses
    assert "out" not in addresses


@pytest.mark.parametrize(("hidden", "address"), [(4095, 4096), (4096, 4098)])
def test_what_is_not_aligned_takes_the_careful_kernel(hidden: int, address: int) -> None:
    workspace = Recorder(Choice())
    fused(workspace, hidden=hidden, address=address)
    assert not workspace.launched[0][0].aligned


def test_push_writes_a_copy_for_each_peer() -> None:
    workspace: Any = Recorder(Choice(), transport="push")
    run_plain(workspace, Tensor(100), Tensor(100), Dtype.BFLOAT16)
    assert workspace.launched[0][0].targets == 2


def test_nccl_is_kept_where_the_table_says_so() -> None:
    workspace: Any = Recorder(Choice(transport="nccl"), fallback="a group")
    out = Tensor(100, 8192)
    run_plain(workspace, Tensor(100), out, Dtype.BFLOAT16)
    assert (out.copied, workspace.reduced, workspace.launched) == (4096, [8192], [])
    fused(workspace)
    ((variant, _, addresses),) = workspace.launched
    assert variant.world == 1
    assert addresses["input"] == workspace.reduced[-1] == 4096 + (1 << 20)


def test_without_a_group_to_hand_over_to_the_host_path_serves_what_fits() -> None:
    workspace = Recorder(Choice(transport="nccl"))
    fused(workspace)
    assert workspace.launched[0][0].world == 2


def test_what_does_not_fit_goes_to_the_group_or_is_refused() -> None:
    large = Tensor(64 << 10)
    workspace: Any = Recorder(Choice(), fallback="a group")
    run_plain(workspace, large, Tensor(64 << 10), Dtype.BFLOAT16)
    assert workspace.reduced
    assert not workspace.launched
    alone: Any = Recorder(Choice())
    with pytest.raises(Unsupported, match="fallback=<an NCCL group>"):
        run_plain(alone, large, Tensor(64 << 10), Dtype.BFLOAT16)
