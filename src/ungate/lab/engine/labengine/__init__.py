"""A small tensor-parallel completion server on CPU processes."""

from __future__ import annotations

import os

__all__ = ["__version__"]

__version__ = "0.5.0"

# One thread a rank. The libraries read these when numpy is imported, so no later place is early enough.
os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
