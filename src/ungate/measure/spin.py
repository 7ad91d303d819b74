"""Busy without progress: the rule that tells a spinning synchronisation from work, fitted per machine.

Utilisation counts the time a kernel is resident, so a kernel that polls for its peer reads 100 %. Its power does
not: it stays near idle. There is no universal threshold (cards were seen to spin at 22, 98 and 140 W), so the bands
come from an idle and a busy sample of the same machine. Without a GPU the same rule works on CPU time against tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from ungate.measure.telemetry import Window

__all__ = ["SLOW", "Band", "Spin", "diagnose", "fit"]

SLOW = 0.5
"""Below this share of the busy sample's tokens a second there is no progress worth the name. Of the public reports
that this rule was tried on, the mildest collapse made 0.31 of the healthy rate."""

_BUSY_UTILISATION = 0.9  # of the busy sample's
_LOW_POWER = 0.6  # of the way from idle to busy
_BUSY_CORES = 0.8  # of the busy sample's
_ONE_SPINS = 0.5  # cores: who spins on a CPU has most of one, however little the healthy load took
_DEAR_TOKEN = 2.0  # CPU seconds a token, against the busy sample


@dataclass(frozen=True, slots=True)
class Band:
    """What idle and busy look like on this machine: watts a GPU, utilisation in percent, CPU cores, tokens a second.

    A value is None where this machine does not give it; a rule that needs it then says nothing.
    """

    idle_power: float | None = None
    busy_power: float | None = None
    busy_utilisation: float | None = None
    busy_cores: float | None = None
    busy_tokens_per_second: float | None = None
    busy_cpu_s_per_token: float | None = None


@dataclass(frozen=True, slots=True)
class Spin:
    """``where`` is gpu or cpu; ``what`` a phrase for a verdict; ``evidence`` the figures it rests on."""

    where: str
    what: str
    evidence: str


def fit(idle: Window | None, busy: Window) -> Band:
    """The bands of this machine from the server at rest and under a load that is known to be healthy."""
    return Band(
        idle_power=_mean(idle.gpu("power")) if idle else None,
        busy_power=_mean(busy.gpu("power")),
        busy_utilisation=_mean(busy.gpu("utilisation")),
        busy_cores=busy.cpu_cores,
        busy_tokens_per_second=busy.tokens_per_second,
        busy_cpu_s_per_token=busy.cpu_s_per_token,
    )


def diagnose(window: Window, band: Band, *, loaded: bool = True) -> Spin | None:
    """What is wrong in ``window``, or None: all is well, or the readings do not suffice to say that it is not.

    ``loaded`` False: no request is being served. Then a GPU that reads busy spins for nobody, or hangs in a
    call that a dead process left behind.
    """
    gpus = _gpus(window)
    busy = [
        gpu
        for gpu in gpus
        if band.busy_utilisation is not None and gpu.utilisation >= _BUSY_UTILISATION * band.busy_utilisation
    ]
    if busy and not loaded:
        return Spin("gpu", "busy with no request to serve", _gpu_words(busy, gpus, band))
    if not loaded or not _slow(window, band):
        return None
    powers = [gpu.power for gpu in busy if gpu.power is not None]
    if powers and band.busy_power is not None:
        # Without an idle sample idle counts as 0 W, which only makes the rule stricter.
        idle = band.idle_power or 0.0
        limit = idle + _LOW_POWER * (band.busy_power - idle)
        # One rank that is lost reads idle while those that wait for it read busy: none of them may be at work.
        if max(powers) <= limit:
            words = _gpu_words(busy, gpus, band)
            return Spin("gpu", "spinning on a synchronisation", f"{words}; {_speed_words(window, band)}")
        return None
    return _cpu(window, band)


@dataclass(frozen=True, slots=True)
class _Gpu:
    utilisation: float
    power: float | None


def _gpus(window: Window) -> list[_Gpu]:
    """Each GPU that gave its utilisation."""
    means = dict(window.gpus)
    found = []
    for name, value in window.gpus:
        gpu, _, field = name.partition("/")
        if field == "utilisation" and value is not None:
            found.append(_Gpu(value, means.get(f"{gpu}/power")))
    return found


def _cpu(window: Window, band: Band) -> Spin | None:
    """As busy as under a healthy load, and each token costs a multiple of its CPU time (or there is no token)."""
    cores, dear = window.cpu_cores, window.cpu_s_per_token
    if cores is None or band.busy_cores is None or cores < max(_ONE_SPINS, _BUSY_CORES * band.busy_cores):
        return None
    if dear is not None and (band.busy_cpu_s_per_token is None or dear < _DEAR_TOKEN * band.busy_cpu_s_per_token):
        return None
    evidence = f"{cores:.1f} cores busy (healthy load: {band.busy_cores:.1f}); {_speed_words(window, band)}"
    if dear is not None and band.busy_cpu_s_per_token is not None:
        evidence += f"; {dear * 1000:.1f} ms of CPU a token instead of {band.busy_cpu_s_per_token * 1000:.1f}"
    return Spin("cpu", "spinning on a synchronisation", evidence)


def _slow(window: Window, band: Band) -> bool:
    healthy, now = band.busy_tokens_per_second, window.tokens_per_second
    return healthy is not None and now is not None and now < SLOW * healthy


def _gpu_words(busy: Sequence[_Gpu], gpus: Sequence[_Gpu], band: Band) -> str:
    words = "" if len(busy) == len(gpus) else f"{len(busy)} of {len(gpus)} GPUs at "
    words += f"{fmean(gpu.utilisation for gpu in busy):.0f} % utilisation"
    powers = [gpu.power for gpu in busy if gpu.power is not None]
    if powers:
        words += f" at {fmean(powers):.0f} W"
        if band.busy_power is not None:
            words += f" (healthy load: {band.busy_power:.0f} W)"
    return words


def _speed_words(window: Window, band: Band) -> str:
    return f"{window.tokens_per_second:.1f} tokens/s instead of {band.busy_tokens_per_second:.1f}"


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None
