"""How often the judge is wrong when there is no effect, and how often it sees one that is there.

    python benchmarks/calibration.py [--campaigns 2000] [--json]

Each simulated campaign has the design of a real one (starts in A B B A order, each start one throughput) and noise
of the shapes measured on real servers: a spread between starts, a drift over the campaign, a first start that
is slow because caches are cold, and now and then a start that is far off (a heavy tail). With a prior the judge also
knows an earlier spread of this machine: of the same noise, or of a time when it was half as noisy.
"""

from __future__ import annotations

import argparse
import itertools
import json
from dataclasses import dataclass, replace

import numpy as np

from ungate.judge import decide, floor, order
from ungate.judge.interval import PRIOR_BELOW, Prior
from ungate.model import Cell, Decision

CELL = Cell(4, 64, 32)


@dataclass(frozen=True)
class Noise:
    """Log-scale noise: ``spread`` a start, ``drift`` over the whole campaign, ``cold`` on the first start,
    and with probability ``odd`` a start that is ``far`` spreads off."""

    name: str
    spread: float
    drift: float = 0.0
    cold: float = 0.0
    odd: float = 0.0
    far: float = 5.0


NOISES = (
    Noise("quiet", 0.02),
    Noise("drifting", 0.03, drift=0.15),
    Noise("cold first start", 0.03, cold=-0.4),
    Noise("heavy tails", 0.04, odd=0.08),
    Noise("all of it", 0.04, drift=0.15, cold=-0.3, odd=0.05),
)


PRIORS = {"none": 0.0, "same noise": 1.0, "half the noise": 0.5}
"""How noisy the machine was when the prior was measured, against now."""

_DEGREES = 6
"""Differences that a prior is made of; also the most weight that a run gives it."""


def starts(random: np.random.Generator, noise: Noise, count: int) -> np.ndarray:
    """The logarithms of the throughputs of so many starts of one and the same server."""
    logs = random.normal(0.0, noise.spread, count) + np.linspace(0.0, noise.drift, count) * random.choice([-1, 1])
    logs[0] += noise.cold
    odd = random.random(count) < noise.odd
    return np.asarray(logs + odd * random.choice([-1, 1], count) * noise.far * noise.spread)


def earlier(random: np.random.Generator, noise: Noise, scale: float) -> Prior | None:
    """What earlier runs tell, from successive starts of one arm with ``scale`` times the noise; None for 0."""
    if scale <= 0:
        return None
    quiet = replace(noise, spread=noise.spread * scale, drift=noise.drift * scale, cold=noise.cold * scale)
    logs = starts(random, quiet, 2 * _DEGREES)
    return Prior(float(np.sqrt(np.mean((logs[1::2] - logs[::2]) ** 2))), _DEGREES)


def campaign(random: np.random.Generator, noise: Noise, pairs: int, effect: float, scale: float = 0.0) -> Decision:
    """One campaign: the decision of the judge at 5 %, with the noise floor of the same campaign."""
    arms = order(pairs)
    prior = earlier(random, noise, scale)
    count = len(arms)
    values = np.exp(
        starts(random, noise, count) + np.array([np.log1p(effect) if arm == "candidate" else 0.0 for arm in arms])
    )
    ratios, by_arm = [], {"baseline": [], "candidate": []}  # type: ignore[var-annotated]
    for place in range(0, count, 2):
        pair = {arms[place]: values[place], arms[place + 1]: values[place + 1]}
        ratios.append(float(pair["candidate"] / pair["baseline"]))
    for arm, value in zip(arms, values, strict=True):
        by_arm[arm].append(float(value))
    return decide(CELL, ratios, noise=floor(list(by_arm.values())), prior=prior).decision


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--campaigns", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    random = np.random.default_rng(options.seed)
    rows = []
    for noise, pairs, prior in itertools.product(NOISES, (2, 3, 4, 6, 8, 12), PRIORS):
        if prior != "none" and pairs >= PRIOR_BELOW:
            continue  # from there on it is not asked
        null = [campaign(random, noise, pairs, 0.0, PRIORS[prior]) for _ in range(options.campaigns)]
        tenth = [campaign(random, noise, pairs, 0.10, PRIORS[prior]) for _ in range(options.campaigns)]
        rows.append(
            {
                "noise": noise.name,
                "pairs": pairs,
                "prior": prior,
                "false keep": null.count(Decision.KEEP) / options.campaigns,
                "false revert": null.count(Decision.REVERT) / options.campaigns,
                "power at +10 %": tenth.count(Decision.KEEP) / options.campaigns,
            }
        )
    if options.json:
        print(json.dumps(rows, indent=1))
        return
    print(f"{options.campaigns} simulated campaigns a row")
    print(f"{'noise':18} {'pairs':>5} {'prior':14} {'false keep':>11} {'false revert':>13} {'power at +10 %':>15}")
    for row in rows:
        print(
            f"{row['noise']:18} {row['pairs']:5} {row['prior']:14} "
            f"{row['false keep']:11.1%} {row['false revert']:13.1%} "
            f"{row['power at +10 %']:15.1%}"
        )


if __name__ == "__main__":
    main()
