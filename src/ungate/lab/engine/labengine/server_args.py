"""The server's arguments, and the defaults that follow from model and device."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

from labengine.models import MODELS, ModelConfig
from labengine.platform import is_sm90_supported, is_sm100_supported

__all__ = ["ServerArgs", "get_global_server_args", "prepare_server_args", "set_global_server_args"]


@dataclass
class ServerArgs:
    """What ``python -m labengine.launch`` takes."""

    host: str = "127.0.0.1"
    port: int = 30000
    model: str = "lab-next"
    tp: int = 1
    max_num_seqs: int = 16
    seed: int = 0
    enable_fused_allreduce: bool = False

    def __post_init__(self) -> None:
        if self.config.heads % self.tp or self.tp < 1:
            raise ValueError(f"--tp {self.tp} does not divide the {self.config.heads} heads of {self.model}.")
        self._handle_model_specific_adjustments()

    @property
    def config(self) -> ModelConfig:
        """The shapes of the chosen model."""
        return MODELS[self.model]

    def _handle_model_specific_adjustments(self) -> None:
        # The fused allreduce is enabled by default for models that were tried with it.
        if (
            not self.enable_fused_allreduce
            and self.config.architecture in ["LabDenseForCausalLM", "LabWideForCausalLM"]
            and (is_sm90_supported() or is_sm100_supported())
            and self.tp > 1
        ):
            self.enable_fused_allreduce = True

    @staticmethod
    def add_cli_args(parser: argparse.ArgumentParser) -> None:
        """Register every argument."""
        parser.add_argument("--host", default=ServerArgs.host, help="Address to listen on.")
        parser.add_argument("--port", type=int, default=ServerArgs.port, help="Port to listen on.")
        parser.add_argument("--model", choices=sorted(MODELS), default=ServerArgs.model, help="Model to serve.")
        parser.add_argument("--tp", "--tensor-parallel-size", type=int, default=ServerArgs.tp, help="Worker processes.")
        parser.add_argument(
            "--max-num-seqs", type=int, default=ServerArgs.max_num_seqs, help="Requests that decode together (1-64)."
        )
        parser.add_argument("--seed", type=int, default=ServerArgs.seed, help="Seed of the weights.")
        parser.add_argument(
            "--enable-fused-allreduce",
            action="store_true",
            help="Fuse the allreduce with the residual add and RMSNorm.",
        )


_global_server_args: ServerArgs | None = None


def prepare_server_args(argv: Sequence[str]) -> ServerArgs:
    """Parse a command line; SystemExit 2 with a usage message on a bad one."""
    parser = argparse.ArgumentParser(prog="labengine.launch", description="Serve completions.")
    ServerArgs.add_cli_args(parser)
    parsed = parser.parse_args(argv)
    if not 1 <= parsed.max_num_seqs <= 64:
        parser.error(f"--max-num-seqs must be 1 to 64, not {parsed.max_num_seqs}.")
    try:
        return ServerArgs(**vars(parsed))
    except ValueError as error:
        parser.error(str(error))


def set_global_server_args(args: ServerArgs) -> None:
    """Make the arguments known to the modules of this process."""
    global _global_server_args  # noqa: PLW0603
    _global_server_args = args


def get_global_server_args() -> ServerArgs:
    """The arguments of this process; RuntimeError before they are set."""
    if _global_server_args is None:
        raise RuntimeError("The server arguments are not set in this process.")
    return _global_server_args
