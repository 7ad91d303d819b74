"""Compile what the edits touch, and read from the binary whether the kernels have a body."""

from ungate.build.command import compile_recipe

__all__ = ["compile_recipe"]
