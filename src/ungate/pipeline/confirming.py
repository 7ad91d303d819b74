"""Does a second scan agree with a series?"""

from __future__ import annotations

from collections.abc import Sequence

from ungate.host.packages import Package
from ungate.host.progress import Report, silent
from ungate.model import Finding, Gate, ScanResult, Series

__all__ = ["confirm", "scanned_again"]


def scanned_again(
    series: Series, copies: Sequence[Package], before: ScanResult, report: Report = silent
) -> tuple[tuple[Gate, ...], tuple[Finding, ...]]:
    """The gates of the edited copies, and a finding for whatever :func:`ungate.patch.verify` does not confirm."""
    import ungate.scan
    from ungate.patch import verify

    few = ungate.scan.scan(copies, report=report, files=frozenset(series.after), use_cache=False)
    wrong = verify(series, before.gates, few.gates)
    if not wrong:
        return few.gates, ()
    # a name may come to something else when fewer files are read; only two scans of everything settle a doubt
    whole = ungate.scan.scan(copies, report=report, use_cache=False)
    return whole.gates, verify(series, before.gates, whole.gates)


def confirm(
    series: Series, copies: Sequence[Package], before: ScanResult, report: Report = silent
) -> tuple[Finding, ...]:
    """The findings of :func:`scanned_again`; empty when the scan confirms every edit and nothing else changed."""
    return scanned_again(series, copies, before, report)[1]
