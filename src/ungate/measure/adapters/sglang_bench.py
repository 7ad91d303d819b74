"""``sglang.bench_serving``: one JSON line a run (``--output-details``), with vLLM's lists and no start times.

It asks for no usage, and where it is told none it books as many output tokens as it asked for, so that a stream that
was cut short counts in full. What came in chunks is all that is known.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ungate.measure.adapters import Adapter, Job, Row, register
from ungate.measure.adapters.vllm_bench import rows

__all__ = ["SGLANG_BENCH"]


def _command(job: Job) -> Sequence[str]:
    cell = job.cell
    return (
        str(job.python),
        *("-m", "sglang.bench_serving", "--backend", "sglang-oai", "--base-url", job.url),
        *("--model", job.model, "--tokenizer", str(job.tokenizer), "--seed", str(job.seed)),
        *("--dataset-name", "random-ids", "--random-input-len", str(cell.prompt_tokens)),
        *("--random-output-len", str(cell.output_tokens), "--random-range-ratio", "1"),
        *("--num-prompts", str(job.requests), "--max-concurrency", str(cell.concurrency)),
        *("--warmup-requests", str(cell.concurrency), "--disable-tqdm"),
        *("--output-file", str(job.output), "--output-details"),
    )


def _read(path: Path) -> Sequence[Row]:
    # The tool appends a line a run; the last one is this run's.
    found = rows(json.loads(path.read_text().splitlines()[-1]), path)
    return [replace(row, output_tokens=min(row.output_tokens, len(row.gaps) + 1)) for row in found]


SGLANG_BENCH = register(Adapter("sglang-bench", _command, _read))
