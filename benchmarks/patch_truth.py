"""How many gates of real changes `open` makes pass, and whether the second scan, Python and the preprocessor agree.

    python benchmarks/patch_truth.py RECORDS.json [--package NAME]... [--show] [--json]

RECORDS.json holds labelled changes: for each a package, the release before, the target archs, and the gates with file,
span and the archs that pass before and after. For every merged change that opens, the release before is fetched, its
gates are scanned, those in the labelled spans are opened for each target, and the edited copy is scanned again. One
point is one gate and one target that the change let in. It counts as opened only if every gate that the scan reports in
the span lets the target through afterwards, the second scan confirms the series without a finding, and all edited files
still compile and preprocess. A gate that the scan does not report, or that is refused, counts as not opened; left out
of the share are only those whose answer lies in a prebuilt binary or cannot be known from the text.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ungate.errors import Refusal
from ungate.host.index import fetch
from ungate.host.packages import Package, below
from ungate.model import Gate, ScanResult, Series, Target
from ungate.patch import open_series
from ungate.patch.content import changed
from ungate.patch.proof import compiles, preprocesses
from ungate.patch.verify import twins
from ungate.pipeline.confirming import scanned_again
from ungate.scan import scan

_SOURCES = frozenset({".py", ".c", ".cc", ".cpp", ".cu", ".cuh", ".cxx", ".h", ".hpp", ".inl", ".jinja", ".txt"})
_SLACK = 3  # lines that a report may be longer than its label


@dataclass(frozen=True)
class Point:
    """One labelled gate and one target: ``outcome`` is opened, left out, or why not."""

    record: str
    release: str
    place: str
    kind: str
    target: int
    outcome: str
    why: str = ""


def _matching(gates: Sequence[Gate], label: dict[str, Any]) -> list[Gate]:
    first, last = label.get("span") or [label["line"], label["line"]]
    inside = [
        gate
        for gate in gates
        if gate.file == label["file"]
        and first - _SLACK <= gate.line <= last
        and first <= gate.end_line <= last + _SLACK
    ]
    # a neighbour within the slack is no answer where the labelled lines have their own
    exact = [gate for gate in inside if gate.line <= label["line"] <= gate.end_line]
    return exact or inside


def _copy(release: str, folder: Path) -> tuple[Package, ...]:
    """The sources of a release; compiled objects are left out, since no edit could touch them."""
    root = fetch(release)
    for path in root.rglob("*"):
        if path.is_file() and (path.suffix in _SOURCES or ".dist-info/" in path.as_posix()):
            place = folder / path.relative_to(root)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, place)
    return below(folder)


def _confirmed(series: Series, packages: tuple[Package, ...], before: ScanResult) -> tuple[str, dict[str, Gate]]:
    """Write the series, scan, compile and preprocess, and put the files back; what was wrong, and each gate's twin."""
    contents = changed(series, packages)
    root = packages[0].root
    try:
        for path, _, after in contents.values():
            path.write_bytes(after)
        found, wrong = scanned_again(series, packages, before)
        wrong = (*wrong, *compiles(series, root), *preprocesses(series, root))
    finally:
        for path, old, _ in contents.values():
            path.write_bytes(old)
    danger = next((f"{each.what} {each.evidence[-200:]}" for each in wrong if each.severity == "danger"), "")
    return danger, twins(series, before.gates, found)


def _record(record: dict[str, Any], release: str, packages: tuple[Package, ...], before: ScanResult) -> Iterator[Point]:
    for number in record["target_archs"]:
        labels = []
        for label in record["gates"]:
            was, will = label["passes_before"], label["passes_after"]
            if was is None or will is None or record["flip"] == "opaque":
                yield _point(record, release, label, number, "left out", "not decided by the text")
            elif number in will and number not in was:
                labels.append(label)
        asked = {id(label): _matching(before.gates, label) for label in labels}
        gates = [gate for some in asked.values() for gate in some]
        if not labels:
            continue
        try:
            series = open_series(record["id"], gates, Target(number), packages)
            danger, after = _confirmed(series, packages, before) if series.edits else ("", {})
        except Refusal as refusal:
            danger, after, series = str(refusal), {}, Series("", Target(number), (), {}, {})
        refused = {gate.id: why for gate, why in series.refused}
        for label in labels:
            own = asked[id(label)]
            now = [after.get(gate.id, gate) for gate in own]
            why = next((refused[gate.id] for gate in own if gate.id in refused), "")
            if not own:
                outcome = "not found"
            elif danger:
                outcome, why = "not confirmed", danger
            elif all(gate.passes.lets(number) for gate in now):
                outcome = "opened"
            else:
                outcome = "refused" if why else "still closed"
            yield _point(record, release, label, number, outcome, why)


def _point(record: dict[str, Any], release: str, label: dict[str, Any], number: int, outcome: str, why: str) -> Point:
    return Point(record["id"], release, f"{label['file']}:{label['line']}", label["kind"], number, outcome, why)


def _measure(records: Sequence[dict[str, Any]]) -> Iterator[Point]:
    releases: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        releases.setdefault(f"{record['package']}=={record['before']}", []).append(record)
    for release, some in sorted(releases.items()):
        print(f"{release} ({len(some)} changes)", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(prefix="ungate-truth-") as folder:
            packages = _copy(release, Path(folder))
            before = scan(packages, use_cache=False)
            for record in some:
                yield from _record(record, release, packages, before)


def main() -> None:
    """Print the share, by package, and with --show every point that was not opened."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", type=Path)
    parser.add_argument("--package", action="append", help="only the changes of this distribution; may be repeated")
    parser.add_argument("--show", action="store_true", help="list what was not opened, and why")
    parser.add_argument("--json", action="store_true", help="every point as JSON")
    chosen = parser.parse_args()
    records = [
        record
        for record in json.loads(chosen.records.read_text(encoding="utf-8"))["records"]
        if record["direction"] == "open" and record["status"] == "merged"
        if not chosen.package or record["package"] in chosen.package
    ]
    points = list(_measure(records))
    if chosen.json:
        print(json.dumps([asdict(point) for point in points], indent=1))
        return
    for package in (*sorted({record["package"] for record in records}), ""):
        some = [point for point in points if point.release.startswith(package)]
        counted = [point for point in some if point.outcome != "left out"]
        opened = sum(point.outcome == "opened" for point in counted)
        share = f"{opened}/{len(counted)} = {opened / len(counted):.1%}" if counted else "none"
        print(f"{package or 'all':20} {share:18} {dict(Counter(point.outcome for point in some))}")
    for point in points if chosen.show else ():
        if point.outcome not in ("opened", "left out"):
            place = f"{point.record} {point.release} {point.place} {point.kind} sm_{point.target}"
            print(f"{point.outcome}: {place}: {point.why}")


if __name__ == "__main__":
    main()
