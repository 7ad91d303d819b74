"""How long a scan takes, first and again, and how much memory, beside ripgrep on the same files.

    python benchmarks/scan.py [--out FILE] [NAME==VERSION NAME==VERSION]...

With ``--out`` the figures are written as JSON too. Without a requirement two pairs of releases are used, an older and
a newer; wheels are fetched once into the cache. Each command is started anew; the files are read once before, so that
they lie in the page cache. ``cpu`` is user and system time of the command and its children, which a busy machine
changes less than the wall time.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ungate.host.index import fetch

_PAIRS = (("flashinfer-python==0.6.3", "sglang==0.5.8"), ("flashinfer-python==0.7.4", "sglang==0.5.23"))
_PATTERN = r"__CUDA_ARCH|sm_?[0-9]{2,3}|capability|is_sm[0-9]+"
_DEADLINE_S = 900


def _run(argv: Sequence[str], environment: dict[str, str]) -> tuple[float, float, float]:
    """Wall seconds, CPU seconds and peak memory (MB, of the largest process) of one command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun = time.monotonic()
    subprocess.run(argv, env=environment, stdout=subprocess.DEVNULL, check=True, timeout=_DEADLINE_S)
    seconds = time.monotonic() - begun
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, cpu, after.ru_maxrss / 1024


def _warm(roots: Sequence[Path]) -> tuple[int, int]:
    files = [path for root in roots for path in root.rglob("*") if path.is_file()]
    return len(files), sum(len(path.read_bytes()) for path in files)


def _measure(requirements: Sequence[str]) -> dict[str, Any]:
    roots = [fetch(requirement) for requirement in requirements]
    count, size = _warm(roots)
    print(f"{' + '.join(requirements)}: {count} files, {size / 1e6:.0f} MB")
    figures: dict[str, Any] = {"packages": [*requirements], "files": count, "bytes": size}
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "UNGATE_CACHE_DIR": folder}
        command = [sys.executable, "-m", "ungate", "scan", *map(str, roots), "--target", "sm_120", "--json"]
        for name in ("first", "again"):
            seconds, cpu, memory = _run(command, environment)
            figures[name] = {"wall_s": seconds, "cpu_s": cpu, "largest_process_mb": memory}
            print(f"  scan {name:6} {seconds:8.2f} s wall {cpu:8.2f} s cpu {memory:6.0f} MB in the largest process")
    ripgrep = shutil.which("rg")
    if ripgrep is None:
        print("  ripgrep is not installed here, so there is no floor to compare with")
        return figures
    seconds, cpu, _ = _run([ripgrep, "-c", "--no-ignore", "-e", _PATTERN, *map(str, roots)], dict(os.environ))
    print(f"  ripgrep     {seconds:8.2f} s wall {cpu:8.2f} s cpu")
    figures["ripgrep"] = {"wall_s": seconds, "cpu_s": cpu}
    return figures


def main() -> None:
    """Measure each pair and say how busy the machine was."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="a file for the figures")
    parser.add_argument("requirement", nargs="*")
    given = parser.parse_args()
    pairs = [tuple(given.requirement)] if given.requirement else _PAIRS
    measured = [_measure(pair) for pair in pairs]
    load, cores = os.getloadavg()[0], os.cpu_count()
    print(f"load average {load:.1f} on {cores} cores")
    if given.out is not None:
        document = {"cores": cores, "load_average": load, "python": sys.version.split()[0], "measured": measured}
        given.out.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
