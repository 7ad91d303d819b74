"""The models that can be served, and their seeded weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["MODELS", "Array", "ModelConfig", "Weights", "make_weights"]

Array = NDArray[np.float32]


@dataclass(frozen=True)
class ModelConfig:
    """Shapes of a decoder without biases; ``architecture`` is the name that defaults are keyed by."""

    architecture: str
    hidden: int = 256
    intermediate: int = 512
    layers: int = 4
    heads: int = 8
    vocab: int = 512
    max_model_len: int = 1024
    eps: float = 1e-6

    @property
    def head_dim(self) -> int:
        return self.hidden // self.heads


MODELS: dict[str, ModelConfig] = {
    "lab-dense": ModelConfig("LabDenseForCausalLM"),
    "lab-wide": ModelConfig("LabWideForCausalLM", hidden=512, intermediate=1024),
    "lab-next": ModelConfig("LabNextForCausalLM"),
}
"""By name. The server enables the fused allreduce by default for the first two; lab-next is newer than that list."""


@dataclass(frozen=True)
class Weights:
    """All weights of a model, whole; a rank takes its part of them."""

    embedding: Array  # [vocab, hidden]
    position: Array  # [max_model_len, hidden]
    qkv: Array  # [layers, 3, heads, hidden, head_dim]
    output: Array  # [layers, heads, head_dim, hidden]
    up: Array  # [layers, hidden, intermediate]
    down: Array  # [layers, intermediate, hidden]
    norms: Array  # [2 * layers + 1, hidden]
    head: Array  # [hidden, vocab]


def make_weights(config: ModelConfig, seed: int) -> Weights:
    """Seeded random weights, scaled so that activations keep their size and logits have a clear maximum."""
    rng = np.random.default_rng(seed)

    def normal(*shape: int, scale: float) -> Array:
        values = rng.standard_normal(shape, np.float32)
        values *= np.float32(scale)
        return values

    c = config
    return Weights(
        embedding=normal(c.vocab, c.hidden, scale=1.0),
        position=normal(c.max_model_len, c.hidden, scale=0.5),
        qkv=normal(c.layers, 3, c.heads, c.hidden, c.head_dim, scale=c.hidden**-0.5),
        output=normal(c.layers, c.heads, c.head_dim, c.hidden, scale=c.hidden**-0.5),
        up=normal(c.layers, c.hidden, c.intermediate, scale=c.hidden**-0.5),
        down=normal(c.layers, c.intermediate, c.hidden, scale=c.intermediate**-0.5),
        norms=1 + normal(2 * c.layers + 1, c.hidden, scale=0.1),
        head=normal(c.hidden, c.vocab, scale=3 * c.hidden**-0.5),
    )
