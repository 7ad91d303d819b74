"""Compiling a module of C++ sources when it is first used."""

from __future__ import annotations

from .comm import gen_allreduce_comm_module
from .core import JitSpec, gen_jit_spec

__all__ = ["JitSpec", "gen_allreduce_comm_module", "gen_jit_spec"]
