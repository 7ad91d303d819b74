"""Open gates, reversibly: edits, series, overlay, and the transaction on installed packages."""

from __future__ import annotations

from ungate.patch.overlay import Overlay, create
from ungate.patch.series import open_series
from ungate.patch.verify import verify

__all__ = ["Overlay", "create", "open_series", "verify"]
