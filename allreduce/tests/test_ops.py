"""torch operators without a GPU: schemas, fakes, errors. Numbers are checked on GPUs by benchmarks/allreduce.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch (the CPU build is enough)")

pytestmark = pytest.mark.torch

NAMES = ("all_reduce", *(f"fused_allreduce_residual_rmsnorm{end}" for end in ("", "_fp8", "_fp8_token", "_nvfp4")))


@pytest.fixture(scope="module")
def ops() -> Any:
    from ungate_allreduce import ops as module

    assert module.NAME == "ungate_allreduce"
    return torch.ops.ungate_allreduce


@pytest.mark.parametrize("name", NAMES)
def test_every_operator_has_an_out_variant_that_says_what_it_writes(ops: Any, name: str) -> None:
    packet = getattr(ops, name)
    assert set(packet.overloads()) == {"default", "out"}
    written = {a.name for a in packet.out._schema.arguments if a.alias_info is not None and a.alias_info.is_write}
    assert "out" in written
    assert ("residual_out" in written) == (name != "all_reduce")
    assert all(a.alias_info is None for a in packet.default._schema.arguments)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_fakes_have_the_shapes_and_dtypes_of_the_kernels(ops: Any, dtype: object) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        x = torch.empty(3, 5, 4096, dtype=dtype)
        weight, scale = torch.empty(4096, dtype=dtype), torch.empty(1)
        got = ops.all_reduce(x, 1)
        assert (got.shape, got.dtype) == (x.shape, dtype)
        fused = ops.fused_allreduce_residual_rmsnorm(x, x, weight, 1e-6, 1)
        assert [(t.shape, t.dtype) for t in fused] == [(x.shape, dtype)] * 2
        fp8 = ops.fused_allreduce_residual_rmsnorm_fp8(x, x, weight, 1e-6, 1, scale=scale)
        assert [(t.shape, t.dtype) for t in fp8] == [(x.shape, torch.float8_e4m3fn), (x.shape, dtype)]
        token = ops.fused_allreduce_residual_rmsnorm_fp8_token(x, x, weight, 1e-6, 1)
        assert [tuple(t.shape) for t in token] == [(3, 5, 4096), (15, 1), (3, 5, 4096)]
        plain = ops.fused_allreduce_residual_rmsnorm_nvfp4(x, x, weight, 1e-6, 1, scale=scale)
        assert [tuple(t.shape) for t in plain] == [(15, 2048), (15, 256), (3, 5, 4096)]
        tiles = ops.fused_allreduce_residual_rmsnorm_nvfp4(x, x, weight, 1e-6, 1, scale=scale, swizzled=True)
        assert tuple(tiles[1].shape) == (128, 256)


def test_traces_whole_under_torch_compile(ops: Any) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx

    def layer(x: Any, residual: Any, weight: Any) -> Any:
        return ops.fused_allreduce_residual_rmsnorm(x * 2, residual, weight, 1e-6, 1)

    with FakeTensorMode() as mode:
        x = torch.empty(2, 64)
        traced = make_fx(layer, tracing_mode="fake")(x, x, torch.empty(64))
    called = [node.target for node in traced.graph.nodes if node.op == "call_function"]
    assert torch.ops.ungate_allreduce.fused_allreduce_residual_rmsnorm.default in called
    assert mode is not None


def test_a_cpu_tensor_is_refused(ops: Any) -> None:
    with pytest.raises(NotImplementedError, match="CPU"):
        ops.all_reduce(torch.zeros(4), 1)


def test_unknown_workspace_is_named() -> None:
    from ungate_allreduce.errors import AllreduceError
    from ungate_allreduce.workspace import find

    with pytest.raises(AllreduceError, match="no workspace 123456"):
        find(123456)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"residual": (2, 32)}, "residual has to be"),
        ({"weight": (32,)}, "weight has to be"),
        ({"out": (2, 32)}, "out has to be"),
        ({"dtype": torch.int32}, "float32, float16 and bfloat16"),
    ],
)
def test_wrong_tensors_are_refused_before_anything_is_sent(change: dict[str, object], word: str) -> None:
    from ungate_allreduce import ops as module
    from ungate_allreduce.errors import Unsupported

    dtype = change.get("dtype", torch.float32)
    x = torch.zeros(2, 64, dtype=dtype)
    tensors = {
        name: torch.zeros(change.get(name, shape), dtype=dtype)
        for name, shape in {"residual": (2, 64), "weight": (64,), "out": (2, 64)}.items()
    }
    with pytest.raises(Unsupported, match=word):
        module._fused_out(
            x, tensors["residual"], tensors["weight"], 1e-6, 1, out=tensors["out"], residual_out=x.clone()
        )


def test_scales_of_nvfp4_tiles_are_whole() -> None:
    from ungate_allreduce.ops import nvfp4_scale_shape

    assert nvfp4_scale_shape(3, 96, False) == (3, 6)
    assert nvfp4_scale_shape(3, 96, True) == (128, 8)
    assert nvfp4_scale_shape(129, 64, True) == (256, 4)


def test_group_needs_torch_distributed() -> None:
    from ungate_allreduce.errors import Unsupported
    from ungate_allreduce.host import TorchGroup

    with pytest.raises(Unsupported, match="init_process_group"):
        TorchGroup()


def test_a_process_group_of_torch_is_taken_as_one(tmp_path: Path) -> None:
    import torch.distributed as dist

    from ungate_allreduce.host import TorchGroup, group_of

    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        for group in (dist.group.WORLD, None):
            peers = group_of(group)
            assert (peers.rank, peers.world, peers.gather("x")) == (0, 1, ["x"])
        own = TorchGroup()
        assert group_of(own) is own
    finally:
        dist.destroy_process_group()


def test_a_forked_child_is_refused_in_words() -> None:
    from ungate_allreduce.errors import AllreduceError
    from ungate_allreduce.variant import Dtype, Line, Variant
    from ungate_allreduce.workspace import Workspace

    workspace = Workspace.__new__(Workspace)
    workspace._pid = -1
    with pytest.raises(AllreduceError, match="before a fork"):
        workspace.launch(Variant(2, Dtype.BFLOAT16, Line.LL8), 8, {})
