"""The modules of the communication kernels."""

from __future__ import annotations

from . import env as jit_env
from .core import JitSpec, current_compilation_context, gen_jit_spec

__all__ = ["gen_allreduce_comm_module"]


def gen_allreduce_comm_module() -> JitSpec:
    """The fused one-shot and the two-shot allreduce, in one shared object."""
    archs = current_compilation_context.get_supported_archs(supported_major_versions=[9, 10])
    return gen_jit_spec(
        "allreduce_comm",
        [
            jit_env.LABKERNELS_CSRC_DIR / "allreduce_fusion.cpp",
            jit_env.LABKERNELS_CSRC_DIR / "allreduce.cpp",
        ],
        archs,
    )
