"""Communication kernels that are compiled when they are first used."""

from __future__ import annotations

__all__ = ["__version__"]

__version__ = "0.3.0"
