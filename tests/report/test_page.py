from __future__ import annotations

import re
from typing import Any

from ungate.report import render, summary

CELL = {"concurrency": 4, "prompt_tokens": 64, "output_tokens": 32}
GATE = {
    "condition": "major in [9, 10] <b>",
    "status": "closed",
    "line": 57,
    "passes": [90, 100],
    "reached": "yes",
    "file": "a.py",
}


def _document() -> dict[str, Any]:
    samples = [
        {"arm": arm, "start": i, "cell": CELL, "metric": "output_tokens_per_second", "value": value, "unit": "token/s"}
        for i, (arm, value) in enumerate(
            [("baseline", 100.0), ("candidate", 3.0), ("candidate", 3.1), ("baseline", 98.0)]
        )
    ]
    return {
        "ungate": "0.1.0",
        "recipe": {"name": "lab", "summary": "Fused allreduce <script>", "metric": "output_tokens_per_second"},
        "target": "sm_120",
        "ended": "2026-01-01",
        "folder": "runs/1",
        "packages": [{"name": "lab-kernels", "version": "0.1"}],
        "host": {"cores": 2, "driver": None, "virtual_machine": True},
        "chain": {
            "hops": [
                {
                    "kind": "jit-module",
                    "symbol": "gen",
                    "file": "a.py",
                    "line": 3,
                    "verified": None,
                    "note": "",
                    "gates": [GATE],
                }
            ],
            "apart": [],
            "notes": ["one note"],
        },
        "findings": [
            {
                "rule": "hollow",
                "severity": "danger",
                "what": "kernel is hollow",
                "advice": "open it",
                "evidence": "#if",
                "confidence": "high",
                "file": "k.cpp",
                "line": 4,
                "end_line": 9,
                "reached": "yes",
            }
        ],
        "series": {
            "edits": [{"file": "a.py", "why": "adds sm_120", "riders": [121]}],
            "after": {"a.py": "x"},
            "refused": [],
        },
        "elsewhere": [
            {"arm": "later", "packages": [["lab-kernels", "0.4"]], "closed": [], "flag": True, "said": "open <b>"}
        ],
        "diff": "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x < 1\n+x < 2\n",
        "artifacts": [{"path": "k.so", "target": "sm_120", "kernels": 3, "hollow": None, "seconds": 1.5, "note": ""}],
        "guards": [{"name": "outputs", "holds": None, "evidence": "not compared"}],
        "plan": {"sentence": "4 pairs."},
        "samples": samples,
        "telemetry": [
            {"arm": "baseline", "start": 0, "seconds": t / 10, "reading": "CPU cores in use", "value": 2.0}
            for t in range(5)
        ],
        "verdicts": [
            {
                "cell": CELL,
                "decision": "revert",
                "reason": "slower",
                "ratio": 0.03,
                "low": 0.02,
                "high": 0.04,
                "level": 0.95,
                "pairs": 2,
                "diagnosis": "spinning",
            }
        ],
        "policy": {
            "rows": [
                {
                    "cell": CELL,
                    "decision": "revert",
                    "reason": "slower",
                    "ratio": 0.03,
                    "low": 0.02,
                    "high": 0.04,
                    "prefill": None,
                    "decode": "revert",
                }
            ],
            "place": {"tensor_parallel": 4, "peer_access": None, "gpus": []},
            "packages": {"lab-kernels": "0.1"},
        },
        "ablations": [
            {"name": "pdl-off", "cell": CELL, "value": 3.2, "outcome": "not the cause", "said": "PDL off: <slow>."},
            {"name": "without-01", "cell": CELL, "value": 97.0, "outcome": "cause", "said": "Without a.py: fast."},
        ],
        "early": ["c4-i64-o32, candidate: collapsed in 2 of 2 starts, and the load was ended after 21 s <x>."],
        "cause": "The cause, by experiment: without a.py: fast.",
        "tasks": [{"content": "Scan", "status": "completed", "priority": "high"}],
        "next": ["Keep the baseline."],
    }


def test_every_section_is_there_and_nothing_points_outside() -> None:
    page = render(_document())
    for name in (
        "verdict",
        "policy",
        "cause",
        "chain",
        "findings",
        "elsewhere",
        "diff",
        "build",
        "proofs",
        "telemetry",
        "host",
        "tasks",
    ):
        assert f'<section id="{name}"' in page
    assert page.count("<svg") == 3
    assert "<script" not in page
    assert not re.search(r'(?:src|href)="(?!#|data:)', page)
    assert len(page) < 3_000_000


def test_text_of_the_run_is_escaped() -> None:
    page = render(_document())
    assert "lab-kernels 0.4" in page and "open &lt;b&gt;" in page
    assert "ended after 21 s &lt;x&gt;" in page
    assert "&lt;script&gt;" in page and "&lt;b&gt;" in page and "PDL off: &lt;slow&gt;" in page


def test_further_arms_are_named_and_coloured() -> None:
    document = _document()
    document["verdicts"].append({**document["verdicts"][0], "arm": "newer", "decision": "keep"})
    document["verdicts"][0]["arm"] = "candidate"
    document["samples"].append({**document["samples"][0], "arm": "newer", "start": 4})
    page = render(document)
    assert "32 out, newer: keep" in page and "32 out, candidate: revert" in page and "#5a9e5f" in page
    assert "32 out, newer | **keep**" in summary(document)


def test_a_missing_reading_says_unknown() -> None:
    page = render(_document())
    assert "tensor parallel 4" in page and "not judged" in page
    assert re.search(r'driver</th><td class="say"><span class="unknown">unknown', page)
    assert "not established" in page


def test_a_run_that_stopped_early_has_only_what_it_has() -> None:
    page = render({"recipe": {"name": "lab", "summary": "s"}, "target": "sm_120", "chain": _document()["chain"]})
    assert '<section id="chain"' in page and '<section id="verdict"' not in page


def test_the_summary_has_the_verdict_table() -> None:
    text = summary(_document())
    assert "| 4 at once, 64 in, 32 out | **revert** | -97.0 % | -98.0 % to -96.0 % | slower |" in text
    assert "- outputs: not established (not compared)" in text


def test_sizes_and_tools_are_told_as_a_reader_takes_them() -> None:
    document = _document()
    document["host"] = {
        "format": 1,
        "machine": {"memory": 25276063744, "locked_memory_limit": "8388608", "iommu": None, "cores": 2},
        "tools": [
            {"name": "nvcc", "path": "/bin/nvcc", "version": "13.0"},
            {"name": "g++", "path": None, "version": None},
        ],
    }
    page = render(document)
    assert "memory 23.5 GiB, locked memory limit 8 MiB, cores 2" in page
    assert "nvcc 13.0 (/bin/nvcc), g++ of an unknown version (not found)" in page
    assert ">format<" not in page


def test_the_steps_are_folded_once_all_of_them_are_completed() -> None:
    document = _document()
    assert "1 step, all completed" in render(document) and "<details >" in render(document)
    document["tasks"][0]["status"] = "cancelled"
    assert "all completed" not in render(document)


def test_a_cell_is_called_the_same_wherever_it_stands() -> None:
    document = _document()
    document["early"] = ["c4-i64-o32, candidate: collapsed in 2 of 2 starts."]
    assert "4 at once, 64 in, 32 out, candidate: collapsed" in render(document)


def test_a_folder_whose_name_is_no_text_is_told() -> None:
    assert "h\\udcff/run" in render({"folder": "h\udcff/run"}).encode("utf-8").decode("utf-8")
