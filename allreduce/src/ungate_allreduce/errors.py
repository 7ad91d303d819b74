"""What can go wrong, in whole sentences that end in what to do next."""

from __future__ import annotations

__all__ = ["AllreduceError", "CallMismatch", "CompileError", "DriverError", "PeerTimeout", "Unsupported"]


class AllreduceError(RuntimeError):
    """Base of every error of this package."""


class Unsupported(AllreduceError):
    """This machine, shape or dtype is not served here; nothing was started or changed."""


class CompileError(AllreduceError):
    """NVRTC is missing or rejected a kernel; the message holds its log."""


class DriverError(AllreduceError):
    """A call of the CUDA driver failed."""


class PeerTimeout(AllreduceError):
    """A peer did not arrive within the deadline: dead, hung, or not making this call.

    The outputs of the call are NaN, later calls on the workspace do nothing but write NaN, and
    :meth:`Workspace.rebuild` (all ranks) or a new workspace makes it usable again.
    """


class CallMismatch(AllreduceError):
    """The ranks called with different shapes, dtypes, options or software; outputs are NaN."""
