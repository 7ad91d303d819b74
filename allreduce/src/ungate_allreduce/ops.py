"""torch operators: plain and fused allreduce, functional and with outputs given.

All run on torch's current stream, wait for nothing, may be captured into CUDA graphs, and have fake
implementations for torch.compile. ``workspace`` is a :class:`Workspace` or, inside compiled code, its ``handle``.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .dispatch import run_fused, run_plain
from .errors import Unsupported
from .variant import Dtype, Quant
from .workspace import Workspace, find

__all__ = [
    "all_reduce",
    "fused_allreduce_residual_rmsnorm",
    "fused_allreduce_residual_rmsnorm_fp8",
    "fused_allreduce_residual_rmsnorm_fp8_token",
    "fused_allreduce_residual_rmsnorm_nvfp4",
]

DTYPES = {torch.float32: Dtype.FLOAT32, torch.float16: Dtype.FLOAT16, torch.bfloat16: Dtype.BFLOAT16}
NAME = "ungate_allreduce"
FULL = "fused_allreduce_residual_rmsnorm"
FUSED = "Tensor input, Tensor residual, Tensor weight, float epsilon, int workspace, bool gemma=False"
SCHEMAS = (
    "all_reduce(Tensor input, int workspace) -> Tensor",
    "all_reduce.out(Tensor input, int workspace, *, Tensor(a!) out) -> Tensor(a!)",
    f"{FULL}({FUSED}) -> (Tensor, Tensor)",
    f"{FULL}.out({FUSED}, *, Tensor(a!) out, Tensor(b!) residual_out) -> (Tensor(a!), Tensor(b!))",
    f"{FULL}_fp8({FUSED}, *, Tensor scale) -> (Tensor, Tensor)",
    f"{FULL}_fp8.out({FUSED}, *, Tensor scale, Tensor(a!) out, Tensor(b!) residual_out) -> (Tensor(a!), Tensor(b!))",
    f"{FULL}_fp8_token({FUSED}) -> (Tensor, Tensor, Tensor)",
    f"{FULL}_fp8_token.out({FUSED}, *, Tensor(a!) out, Tensor(b!) scale_out, Tensor(c!) residual_out)"
    " -> (Tensor(a!), Tensor(b!), Tensor(c!))",
    f"{FULL}_nvfp4({FUSED}, *, Tensor scale, bool swizzled=False) -> (Tensor, Tensor, Tensor)",
    f"{FULL}_nvfp4.out({FUSED}, *, Tensor scale, bool swizzled=False, Tensor(a!) out, Tensor(b!) scale_out,"
    " Tensor(c!) residual_out) -> (Tensor(a!), Tensor(b!), Tensor(c!))",
)


def dtype_of(tensor: Tensor) -> Dtype:
    """The kernel's dtype, or Unsupported."""
    found = DTYPES.get(tensor.dtype)
    if found is None:
        raise Unsupported(
            f"ungate_allreduce reduces float32, float16 and bfloat16 tensors; this one is {tensor.dtype}."
        )
    return found


def _like(out: Tensor, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device, name: str) -> None:
    if out.dtype != dtype or tuple(out.shape) != shape or not out.is_contiguous() or out.device != device:
        raise Unsupported(
            f"{name} has to be a contiguous {dtype} tensor of shape {shape} on {device}; "
            f"it is {out.dtype} of shape {tuple(out.shape)} on {out.device}."
        )


def nvfp4_scale_shape(rows: int, hidden: int, swizzled: bool) -> tuple[int, int]:
    """Scales of 16-element blocks; the swizzled layout is padded to whole 128 x 4 tiles."""
    if swizzled:
        return (-(-rows // 128) * 128, -(-(hidden // 16) // 4) * 4)
    return (rows, hidden // 16)


def _all_reduce_out(input: Tensor, workspace: int, *, out: Tensor) -> Tensor:
    _like(out, tuple(input.shape), input.dtype, input.device, "out")
    run_plain(find(workspace), input.contiguous(), out, dtype_of(input))
    return out


def _all_reduce(input: Tensor, workspace: int) -> Tensor:
    return _all_reduce_out(input, workspace, out=torch.empty_like(input, memory_format=torch.contiguous_format))


def _rows(input: Tensor) -> tuple[int, int]:
    if input.dim() < 1 or input.shape[-1] == 0:
        raise Unsupported(
            f"The fused operation takes rows of hidden states, [..., hidden]; this is {tuple(input.shape)}."
        )
    return input.numel() // input.shape[-1], input.shape[-1]


def _fused(
    input: Tensor, residual: Tensor, weight: Tensor, epsilon: float, workspace: int, gemma: bool, quant: Quant,
    out: Tensor, residual_out: Tensor, scale: Tensor | None = None, scale_out: Tensor | None = None,
    swizzled: bool = False,
) -> None:  # fmt: skip
    dtype = dtype_of(input)
    rows, hidden = _rows(input)
    for name, tensor, shape in (("residual", residual, input.shape), ("weight", weight, (hidden,))):
        if tensor.dtype != input.dtype or tuple(tensor.shape) != tuple(shape) or tensor.device != input.device:
            raise Unsupported(
                f"{name} has to be {input.dtype} of shape {tuple(shape)} on {input.device}; "
                f"it is {tensor.dtype} of shape {tuple(tensor.shape)} on {tensor.device}."
            )
    _like(residual_out, tuple(input.shape), input.dtype, input.device, "residual_out")
    if scale is not None and (scale.dtype != torch.float32 or scale.numel() != 1 or scale.device != input.device):
        raise Unsupported(f"scale has to be one float32 on {input.device}; it is {scale.dtype} {tuple(scale.shape)}.")
    run_fused(
        find(workspace),
        input.contiguous(),
        residual.contiguous(),
        weight.contiguous(),
        epsilon,
        dtype,
        rows,
        hidden,
        gemma=gemma,
        quant=quant,
        out=out,
        residual_out=residual_out,
        scale=scale,
        scale_out=scale_out,
        swizzled=swizzled,
    )


def _fused_out(
    input: Tensor, residual: Tensor, weight: Tensor, epsilon: float, workspace: int, gemma: bool = False, *,
    out: Tensor, residual_out: Tensor,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    _like(out, tuple(input.shape), input.dtype, input.device, "out")
    _fused(input, residual, weight, epsilon, workspace, gemma, Quant.NONE, out, residual_out)
    return out, residual_out


def _fp8_out(
    input: Tensor, residual: Tensor, weight: Tensor, epsilon: float, workspace: int, gemma: bool = False, *,
    scale: Tensor, out: Tensor, residual_out: Tensor,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    _like(out, tuple(input.shape), torch.float8_e4m3fn, input.device, "out")
    _fused(input, residual, weight, epsilon, workspace, gemma, Quant.FP8_STATIC, out, residual_out, scale)
    return out, residual_out


def _fp8_token_out(
    input: Tensor, residual: Tensor, weight: Tensor, epsilon: float, workspace: int, gemma: bool = False, *,
    out: Tensor, scale_out: Tensor, residual_out: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    _like(out, tuple(input.shape), torch.float8_e4m3fn, input.device, "out")
    _like(scale_out, (_rows(input)[0], 1), torch.float32, input.device, "scale_out")
    _fused(input, residual, weight, epsilon, workspace, gemma, Quant.FP8_TOKEN, out, residual_out, None, scale_out)
    return out, scale_out, residual_out


def _nvfp4_out(
    input: Tensor, residual: Tensor, weight: Tensor, epsilon: float, workspace: int, gemma: bool = False, *,
    scale: Tensor, swizzled: bool = False, out: Tensor, scale_out: Tensor, residual_out: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    rows, hidden = _rows(input)
    _like(out, (rows, hidden // 2), torch.uint8, input.device, "out")
    _like(scale_out, nvfp4_scale_shape(rows, hidden, swizzled), torch.uint8, input.device, "scale_out")
    _fused(
        input, residual, weight, epsilon, workspace, gemma, Quant.NVFP4, out, residual_out, scale, scale_out, swizzled
    )
    return out, scale_out, residual_out


def _empty_fused(name: str, input: Tensor, swizzled: bool = False) -> dict[str, Tensor]:
    """Outputs of an operator, by the names of its out-variant."""
    rows, hidden = _rows(input)
    made = {"out": torch.empty_like(input, memory_format=torch.contiguous_format)}
    if name in (f"{FULL}_fp8", f"{FULL}_fp8_token"):
        made["out"] = torch.empty(input.shape, dtype=torch.float8_e4m3fn, device=input.device)
    if name == f"{FULL}_fp8_token":
        made["scale_out"] = torch.empty((rows, 1), dtype=torch.float32, device=input.device)
    if name == f"{FULL}_nvfp4":
        made["out"] = torch.empty((rows, hidden // 2), dtype=torch.uint8, device=input.device)
        shape = nvfp4_scale_shape(rows, hidden, swizzled)
        # Zeros, because the padding of the swizzled layout is read by GEMMs and never written here.
        made["scale_out"] = torch.zeros(shape, dtype=torch.uint8, device=input.device)
    made["residual_out"] = torch.empty_like(input, memory_format=torch.contiguous_format)
    return made


_OUT: dict[str, Any] = {
    FULL: _fused_out,
    f"{FULL}_fp8": _fp8_out,
    f"{FULL}_fp8_token": _fp8_token_out,
    f"{FULL}_nvfp4": _nvfp4_out,
}


def _functional(name: str) -> Any:
    def implementation(input: Tensor, *arguments: Any, **options: Any) -> Any:
        return _OUT[name](input, *arguments, **options, **_empty_fused(name, input, options.get("swizzled", False)))

    return implementation


def _fake(name: str) -> Any:
    def implementation(input: Tensor, *_: Any, **options: Any) -> Any:
        return tuple(_empty_fused(name, input, options.get("swizzled", False)).values())

    return implementation


def _fake_out(*_: Any, **options: Any) -> Any:
    given = tuple(options[name] for name in ("out", "scale_out", "residual_out") if name in options)
    return given if len(given) > 1 else given[0]


_LIBRARY = torch.library.Library(NAME, "DEF")
for _schema in SCHEMAS:
    _LIBRARY.define(_schema)
_LIBRARY.impl("all_reduce", _all_reduce, "CUDA")
_LIBRARY.impl("all_reduce.out", _all_reduce_out, "CUDA")
torch.library.register_fake(f"{NAME}::all_reduce", lambda input, workspace: torch.empty_like(input), lib=_LIBRARY)
torch.library.register_fake(f"{NAME}::all_reduce.out", _fake_out, lib=_LIBRARY)
for _name, _function in _OUT.items():
    _LIBRARY.impl(_name, _functional(_name), "CUDA")
    _LIBRARY.impl(f"{_name}.out", _function, "CUDA")
    torch.library.register_fake(f"{NAME}::{_name}", _fake(_name), lib=_LIBRARY)
    torch.library.register_fake(f"{NAME}::{_name}.out", _fake_out, lib=_LIBRARY)


def _handle(workspace: Workspace | int) -> int:
    return workspace if isinstance(workspace, int) else workspace.handle


def _call(name: str, *arguments: Any, **options: Any) -> Any:
    operator = getattr(torch.ops.ungate_allreduce, name)
    given = {key: value for key, value in options.items() if value is not None}
    overload = operator.out if "out" in given else operator.default
    return overload(*arguments, **given)


def all_reduce(input: Tensor, workspace: Workspace | int, *, out: Tensor | None = None) -> Tensor:
    """Sum of all ranks' ``input`` (any shape), added in float32 in rank order and rounded once."""
    result: Tensor = _call("all_reduce", input, _handle(workspace), out=out)
    return result


def fused_allreduce_residual_rmsnorm(
    input: Tensor, residual: Tensor, weight: Tensor, epsilon: float, workspace: Workspace | int, *,
    gemma: bool = False, out: Tensor | None = None, residual_out: Tensor | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """``(rmsnorm(r) * weight, r)`` with ``r = allreduce(input) + residual``; ``[..., hidden]``.

    The bits are those of :func:`all_reduce`, a rounded add and a norm of the rounded sum, in any launch shape.
    ``gemma`` multiplies by ``1 + weight``. ``residual_out`` may be ``residual``; with ``out`` both are given.
    """
    result: tuple[Tensor, Tensor] = _call(
        FULL, input, residual, weight, epsilon, _handle(workspace), gemma, out=out, residual_out=residual_out
    )
    return result


def fused_allreduce_residual_rmsnorm_fp8(
    input: Tensor, residual: Tensor, weight: Tensor, epsilon: float, workspace: Workspace | int, scale: Tensor, *,
    gemma: bool = False, out: Tensor | None = None, residual_out: Tensor | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """As the fused operation, the norm as float8_e4m3fn divided by ``scale`` (one float32 on the device)."""
    result: tuple[Tensor, Tensor] = _call(
        f"{FULL}_fp8", input, residual, weight, epsilon, _handle(workspace), gemma,
        scale=scale, out=out, residual_out=residual_out,
    )  # fmt: skip
    return result


def fused_allreduce_residual_rmsnorm_fp8_token(
    input: Tensor, residual: Tensor, weight: Tensor, epsilon: float, workspace: Workspace | int, *,
    gemma: bool = False, out: Tensor | None = None, scale_out: Tensor | None = None,
    residual_out: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """``(float8 norm, scale [rows, 1], residual)``: each row divided by its largest magnitude / 448."""
    result: tuple[Tensor, Tensor, Tensor] = _call(
        f"{FULL}_fp8_token", input, residual, weight, epsilon, _handle(workspace), gemma,
        out=out, scale_out=scale_out, residual_out=residual_out,
    )  # fmt: skip
    return result


def fused_allreduce_residual_rmsnorm_nvfp4(
    input: Tensor, residual: Tensor, weight: Tensor, epsilon: float, workspace: Workspace | int, scale: Tensor, *,
    swizzled: bool = False, gemma: bool = False, out: Tensor | None = None, scale_out: Tensor | None = None,
    residual_out: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """``(two e2m1 a byte, e4m3 scale of 16 elements, residual)``; ``scale`` is the global scale (one float32)."""
    result: tuple[Tensor, Tensor, Tensor] = _call(
        f"{FULL}_nvfp4", input, residual, weight, epsilon, _handle(workspace), gemma,
        scale=scale, swizzled=swizzled, out=out, scale_out=scale_out, residual_out=residual_out,
    )  # fmt: skip
    return result
