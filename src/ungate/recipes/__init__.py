"""Recipes: what to open, how it is switched on, and what proves that it ran."""

from __future__ import annotations

from ungate.recipes.loader import load, names, packages

__all__ = ["load", "names", "packages"]
