"""Many kernels compiled beside each other before the first is needed, so that loading one is a file read."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor

from .compile import compile_kernel
from .loaded import target_of
from .variant import Variant

__all__ = ["compile_all"]


def compile_all(variants: Iterable[Variant], arch: int, processes: int | None = None) -> int:
    """Compile what is not in the cache, and the timing helpers; the number of kernels.

    ``arch`` is 10 * major + minor; ``processes`` is the number of CPUs by default. Raises CompileError.
    """
    jobs: list[tuple[str, str, dict[str, int]]] = [("primitives.cu", str(arch), {}), ("replay.cu", str(arch), {})]
    for variant in dict.fromkeys(variants):
        target, native = target_of(variant, arch)
        jobs.append(("allreduce.cu", target, variant.defines(arch, native_e2m1=native)))
    # spawn: NVRTC keeps state that a forked child must not share.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes or os.cpu_count(), mp_context=context) as pool:
        for _ in pool.map(_compile, jobs):
            pass
    return len(jobs)


def _compile(job: tuple[str, str, dict[str, int]]) -> None:
    compile_kernel(*job)
