"""Where are the gates?"""

from __future__ import annotations

from ungate.scan.engine import scan

__all__ = ["scan"]
