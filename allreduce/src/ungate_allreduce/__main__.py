"""``ungate-allreduce``: compile ahead, tune, prove. One process a GPU is started by the command itself.

ungate-allreduce build --hidden 4096 --arch 120             compile the default kernels into the cache
ungate-allreduce tune --hidden 4096 --out table.json        measure this machine's choices against NCCL
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from .errors import AllreduceError, Unsupported
from .plan import realise, seed
from .variant import Dtype

__all__ = ["main"]

DTYPES = {dtype.name.lower(): dtype for dtype in Dtype}
NCCL_SETTINGS: dict[str, dict[str, str]] = {
    "default": {},
    "LL": {"NCCL_PROTO": "LL"},
    "P2P over the host bridge": {"NCCL_P2P_LEVEL": "SYS"},
}
"""Environments in which NCCL is timed; the fastest for a message is what a candidate has to beat."""

GRACE_S = 5.0
"""Seconds that the other ranks have after one has failed."""


def say(text: str) -> None:
    """A line of progress."""
    print(text, file=sys.stderr, flush=True)


def sizes(hidden: int, dtype: Dtype, largest: int) -> list[int]:
    """Row counts 1, 2, 4, ... up to ``largest`` bytes."""
    out, rows = [], 1
    while rows * hidden * dtype.size <= largest:
        out.append(rows)
        rows *= 2
    return out


def build(options: argparse.Namespace) -> int:
    """Compile the seed's kernels for every architecture asked for."""
    from .compile import compile_kernel
    from .loaded import target_of

    dtype = DTYPES[options.dtype]
    for arch in options.arch:
        for rows in sizes(options.hidden, dtype, options.max_bytes):
            choice = seed(options.world, rows * options.hidden * dtype.size)
            for hidden in (options.hidden, 0):
                variant = realise(choice, options.world, dtype, rows, hidden=hidden)
                target, native = target_of(variant, arch)
                image = compile_kernel("allreduce.cu", target, variant.defines(arch, native_e2m1=native))
                say(f"sm_{target} {variant.line.name} {variant.shots}-shot hidden {hidden}: {len(image.data)} bytes")
    return 0


def tune(options: argparse.Namespace) -> int:
    """Start the ranks: once for each NCCL setting, then for the candidates; write the table."""
    begin = time.monotonic()
    say(f"Compiled {_compile(options)} kernels: {time.monotonic() - begin:.0f} s")
    nccl: dict[str, float] = {}
    for name, env in NCCL_SETTINGS.items():
        for case, us in (_ranks(options, "nccl", env, {}) or {}).items():
            nccl[case] = min(us, nccl.get(case, us))
        say(f"NCCL {name}: {time.monotonic() - begin:.0f} s")
    table = _ranks(options, "tune", {}, nccl)
    if table is None:
        say("The ranks did not finish, so no table was written. See what they printed above.")
        return 3
    scratch = options.out.with_suffix(".part")
    scratch.write_text(table["table"])
    scratch.replace(options.out)
    kept = sum(entry["transport"] == "nccl" for entry in json.loads(table["table"])["entries"].values())
    say(f"{options.out}: {len(json.loads(table['table'])['entries'])} messages, NCCL kept for {kept}.")
    return 0


def _cases(options: argparse.Namespace) -> list[Any]:
    """Fused and plain messages of every size to tune."""
    from .tuner import Case

    dtype = DTYPES[options.dtype]
    rows = sizes(options.hidden, dtype, options.max_bytes)
    return [Case(dtype, r, options.hidden) for r in rows] + [Case(dtype, r * options.hidden) for r in rows]


def _compile(options: argparse.Namespace) -> int:
    """Every candidate's kernel, on all CPUs, before a rank waits for another one's compiler."""
    import torch

    from .ahead import compile_all
    from .tuner import choices, paused

    found = torch.cuda.device_count()
    if found < options.gpus or options.gpus < 2:
        instead = f"tune --gpus {found}" if found >= 2 else "build, which compiles the formula's kernels without a GPU"
        raise Unsupported(
            f"Tuning starts a rank on each of {options.gpus} GPUs, at least two; this machine has {found}. "
            f"Run: ungate-allreduce {instead}"
        )
    major, minor = torch.cuda.get_device_capability(0)
    wanted = [
        realise(one, options.gpus, case.dtype, case.rows, hidden=case.hidden)
        for case in _cases(options)
        for choice in choices(options.gpus, case)
        for one in (choice, *paused(choice))
    ]
    return compile_all(wanted, 10 * major + minor)


def _ranks(options: argparse.Namespace, job: str, env: dict[str, str], given: dict[str, float]) -> Any:
    """What rank 0 wrote, or None. Every rank has a deadline."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "nccl.json").write_text(json.dumps(given))
        argv = [sys.executable, "-m", "ungate_allreduce", "rank", "--job", job, "--folder", folder]
        argv += ["--gpus", str(options.gpus), "--hidden", str(options.hidden), "--dtype", options.dtype]
        argv += ["--max-bytes", str(options.max_bytes)]
        children = [
            subprocess.Popen([*argv, "--rank", str(rank)], env={**os.environ, **env}) for rank in range(options.gpus)
        ]
        end = time.monotonic() + options.deadline
        while None in (codes := [child.poll() for child in children]):
            if any(codes):
                # The others wait for a rank that is gone; what they have to say about it comes within seconds.
                end = min(end, time.monotonic() + GRACE_S)
            if time.monotonic() > end:
                for child in children:
                    child.kill()
                    child.wait()
            time.sleep(0.05)
        for number, child in enumerate(children):
            if child.returncode:
                say(f"Rank {number} of the job {job!r} ended with exit code {child.returncode}.")
        out = Path(folder) / "out.json"
        return json.loads(out.read_text()) if out.is_file() else None


def rank(options: argparse.Namespace) -> int:
    """One rank of a job; started by :func:`tune`."""
    import statistics

    import torch
    import torch.distributed as dist

    from .dispatch import local_norm
    from .tuner import aligned_us
    from .tuner import tune as tune_cases
    from .workspace import Workspace

    torch.cuda.set_device(options.rank)
    store = f"file://{options.folder}/store"
    dist.init_process_group("gloo", init_method=store, rank=options.rank, world_size=options.gpus)
    dtype = DTYPES[options.dtype]
    torch_dtype = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}[options.dtype]
    cases = _cases(options)
    workspace = Workspace.create(max_bytes=options.max_bytes, deadline_s=20.0)
    known: dict[str, float] = json.loads((options.folder / "nccl.json").read_text())
    result: Any = {}
    if options.job == "nccl":
        group = dist.new_group(backend="nccl")
        for case in cases:
            shape = (case.rows, max(case.hidden, 1))
            names = ("input", "residual", "out", "residual_out")
            tensors = {name: torch.randn(shape, device="cuda").to(torch_dtype) for name in names}
            tensors["weight"] = torch.randn(shape[1], device="cuda").to(torch_dtype)
            addresses = {name: tensor.data_ptr() for name, tensor in tensors.items()}

            def call(case: Any = case, tensors: Any = tensors, addresses: Any = addresses) -> None:
                dist.all_reduce(tensors["input"], group=group)
                if case.hidden:
                    local_norm(workspace, dtype, case.rows, case.hidden, addresses, 1e-6)

            result[f"{case.pattern} {case.size}"] = statistics.median(aligned_us(workspace, call))
        torch.cuda.synchronize()
        dist.destroy_process_group(group)
    else:
        report = say if options.rank == 0 else lambda text: None
        table, _ = tune_cases(
            workspace, cases, nccl_us=lambda case: known.get(f"{case.pattern} {case.size}"), report=report
        )
        result = {"table": table.dump()}
    if options.rank == 0:
        part = options.folder / "out.part"
        part.write_text(json.dumps(result))
        part.replace(options.folder / "out.json")
    dist.barrier()
    dist.destroy_process_group()
    return 0


def main(argv: list[str] | None = None) -> int:
    """Entry point; 0 done, 3 error."""
    parser = argparse.ArgumentParser(
        prog="ungate-allreduce", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    for name, run in (("build", build), ("tune", tune), ("rank", rank)):
        command = commands.add_parser(name, help=(run.__doc__ or "").splitlines()[0])
        command.set_defaults(run=run)
        command.add_argument("--hidden", type=int, required=True, help="elements of a row")
        command.add_argument("--dtype", choices=sorted(DTYPES), default="bfloat16")
        command.add_argument("--max-bytes", type=int, default=512 << 10, help="largest message of a rank")
        if name == "build":
            command.add_argument("--world", type=int, default=2)
            command.add_argument("--arch", type=int, nargs="+", required=True, help="compute capability, 120 for 12.0")
        else:
            command.add_argument("--gpus", type=int, default=2)
            command.add_argument("--deadline", type=float, default=600.0, help="seconds for each set of ranks")
        if name == "tune":
            command.add_argument("--out", type=Path, required=True)
        if name == "rank":
            command.add_argument("--rank", type=int, required=True)
            command.add_argument("--job", choices=("nccl", "tune"), required=True)
            command.add_argument("--folder", type=Path, required=True)
    options = parser.parse_args(argv)
    try:
        return int(options.run(options))
    except AllreduceError as error:
        say(str(error))
        return 3


if __name__ == "__main__":
    raise SystemExit(main())
