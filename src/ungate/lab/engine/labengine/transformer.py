"""One rank's share of the decoder: its heads, its columns of the feed-forward, its part of the vocabulary."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from labengine.communicator import LayerCommunicator
from labengine.layernorm import RMSNorm
from labengine.models import Array, ModelConfig, Weights

__all__ = ["Entry", "ShardedDecoder"]


@dataclass(frozen=True)
class Entry:
    """``count`` successive tokens of the sequence in ``slot``, from position ``start`` on."""

    slot: int
    start: int
    count: int


class ShardedDecoder:
    """Weights and KV cache of one rank."""

    def __init__(self, config: ModelConfig, weights: Weights, rank: int, world_size: int, slots: int) -> None:
        c = config
        heads = slice(rank * c.heads // world_size, (rank + 1) * c.heads // world_size)
        columns = slice(rank * c.intermediate // world_size, (rank + 1) * c.intermediate // world_size)
        self.vocab = slice(rank * c.vocab // world_size, (rank + 1) * c.vocab // world_size)
        self.local_heads = heads.stop - heads.start
        self.head_dim = c.head_dim
        self.layers = c.layers
        self.embedding, self.position = weights.embedding, weights.position
        # [3, heads, hidden, dim] -> [hidden, 3 * heads * dim]
        qkv = weights.qkv[:, :, heads].transpose(0, 3, 1, 2, 4)
        self.qkv = np.ascontiguousarray(qkv).reshape(c.layers, c.hidden, -1)
        self.output = np.ascontiguousarray(weights.output[:, heads]).reshape(c.layers, -1, c.hidden)
        self.up = np.ascontiguousarray(weights.up[:, :, columns])
        self.down = np.ascontiguousarray(weights.down[:, columns])
        self.head = np.ascontiguousarray(weights.head[:, self.vocab])
        self.norms = [RMSNorm(row, c.eps) for row in weights.norms]
        self.communicator = LayerCommunicator(c.hidden)
        # Zeroed, since a masked score of 0 times an uninitialised NaN is NaN.
        shape = (c.layers, slots, self.local_heads, c.max_model_len, c.head_dim)
        self.keys, self.values = np.zeros(shape, np.float32), np.zeros(shape, np.float32)

    def forward(self, entries: list[Entry], tokens: NDArray[np.int32]) -> Array:
        """Logits of this rank's vocabulary after the last token of each entry: (entries, vocab / ranks)."""
        positions = np.concatenate([np.arange(e.start, e.start + e.count) for e in entries])
        hidden, residual = self.norms[0](self.embedding[tokens] + self.position[positions])
        single = all(entry.count == 1 for entry in entries)
        for layer in range(self.layers):
            qkv = (hidden @ self.qkv[layer]).reshape(len(tokens), 3, self.local_heads, self.head_dim)
            mixed = self._decode(layer, entries, qkv) if single else self._prefill(layer, entries, qkv)
            partial = mixed.reshape(len(tokens), -1) @ self.output[layer]
            hidden, residual = self.communicator.reduce_and_norm(partial, residual, self.norms[2 * layer + 1])
            activated = np.maximum(hidden @ self.up[layer], 0)
            activated *= activated
            partial = activated @ self.down[layer]
            hidden, residual = self.communicator.reduce_and_norm(partial, residual, self.norms[2 * layer + 2])
        last = np.cumsum([entry.count for entry in entries]) - 1
        logits: Array = hidden[last] @ self.head
        return logits

    def _decode(self, layer: int, entries: list[Entry], qkv: Array) -> Array:
        slots = [entry.slot for entry in entries]
        starts = np.array([entry.start for entry in entries])
        keys, values = self.keys[layer], self.values[layer]
        keys[slots, :, starts] = qkv[:, 1]
        values[slots, :, starts] = qkv[:, 2]
        longest = int(starts.max()) + 1
        # Neighbouring slots are read in place.
        neighbours = slots == list(range(slots[0], slots[0] + len(slots)))
        chosen = slice(slots[0], slots[0] + len(slots)) if neighbours else slots
        seen = keys[chosen, :, :longest]
        scores = (qkv[:, 0, :, None] @ seen.transpose(0, 1, 3, 2))[:, :, 0]
        ahead = np.arange(longest) > starts[:, None]
        share = _softmax(scores, ahead[:, None], self.head_dim)
        mixed: Array = (share[:, :, None] @ values[chosen, :, :longest])[:, :, 0]
        return mixed

    def _prefill(self, layer: int, entries: list[Entry], qkv: Array) -> Array:
        mixed = np.empty((len(qkv), self.local_heads, self.head_dim), np.float32)
        row = 0
        for entry in entries:
            rows, end = slice(row, row + entry.count), entry.start + entry.count
            keys, values = self.keys[layer, entry.slot], self.values[layer, entry.slot]
            keys[:, entry.start : end] = qkv[rows, 1].transpose(1, 0, 2)
            values[:, entry.start : end] = qkv[rows, 2].transpose(1, 0, 2)
            scores = qkv[rows, 0].transpose(1, 0, 2) @ keys[:, :end].transpose(0, 2, 1)
            ahead = np.arange(end) > np.arange(entry.start, end)[:, None]
            share = _softmax(scores, ahead[None], self.head_dim)
            mixed[rows] = (share @ values[:, :end]).transpose(1, 0, 2)
            row += entry.count
        return mixed


def _softmax(scores: Array, hidden: NDArray[np.bool_], dim: int) -> Array:
    scores *= np.float32(dim**-0.5)
    np.putmask(scores, np.broadcast_to(hidden, scores.shape), -np.inf)
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=-1, keepdims=True)
    return scores
