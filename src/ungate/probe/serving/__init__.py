"""What runs inside the serving Python: the survey, and a rank of one candidate.

Standard library and PyTorch only, Python 3.10 or newer; of ungate only this folder and ``probe.candidates``.
"""

from __future__ import annotations

__all__ = ["SIGN"]

SIGN = "ungate-probe-survey:"
"""What the line with the survey begins with: a package may print when it is imported."""
