"""``python -m labkernels.build``: compile every module for ``LAB_CUDA_ARCH_LIST`` and print where it lies, as JSON."""

from __future__ import annotations

import json
import sys

from labkernels import __version__
from labkernels.jit import gen_allreduce_comm_module

__all__ = ["main"]


def main() -> int:
    """Exit code 0, or 1 with the reason on stderr."""
    try:
        spec = gen_allreduce_comm_module()
        modules = [
            {
                "module": spec.name,
                "arch": built.arch,
                "library": str(built.library),
                "objects": [str(path) for path in built.objects],
                "seconds": round(built.seconds, 3),
                "cached": built.cached,
            }
            for built in spec.build()
        ]
    except (RuntimeError, TimeoutError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    json.dump({"version": __version__, "kernel_prefix": "lab_kernel_", "modules": modules}, sys.stdout, indent=1)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
