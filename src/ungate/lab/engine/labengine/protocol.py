"""What a completion request may hold, and what its answer looks like (the OpenAI completions API)."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from labengine.models import Array, ModelConfig
from labengine.scheduler import Generated
from labengine.tokens import decode, encode, join

__all__ = ["Answer", "BadRequest", "Completion", "error_body"]

MAX_LOGPROBS = 20


class BadRequest(Exception):
    """A request that cannot be served; the text says why."""


@dataclass(frozen=True)
class Completion:
    """A request, checked."""

    prompt: list[int]
    max_tokens: int
    stream: bool
    include_usage: bool
    ignore_eos: bool
    logprobs: int | None
    return_token_ids: bool

    @classmethod
    def read(cls, body: object, config: ModelConfig, model: str) -> Completion:
        """BadRequest for what is malformed or cannot be honoured; unknown fields are ignored."""
        if not isinstance(body, Mapping):
            raise BadRequest("The body must be a JSON object.")
        if body.get("model", model) != model:
            raise BadRequest(f"The model {body['model']!r} does not exist; this server has {model!r}.")
        for name, only in (("temperature", 0), ("n", 1), ("best_of", 1), ("echo", False), ("suffix", None)):
            if body.get(name) not in (None, only):
                raise BadRequest(f"{name}={body[name]!r} is not supported; only {only!r} is (decoding is greedy).")
        prompt = _prompt(body.get("prompt"), config)
        max_tokens = _integer(body, "max_tokens", 16, 1)
        if len(prompt) + max_tokens > config.max_model_len:
            raise BadRequest(
                f"{len(prompt)} prompt tokens and {max_tokens} output tokens exceed the {config.max_model_len} "
                "tokens of the model's context."
            )
        options = body.get("stream_options") or {}
        logprobs = None if body.get("logprobs") in (None, False) else _integer(body, "logprobs", 0, 0)
        if logprobs is not None and logprobs > MAX_LOGPROBS:
            raise BadRequest(f"logprobs={logprobs} exceeds {MAX_LOGPROBS}.")
        return cls(
            prompt=prompt,
            max_tokens=max_tokens,
            stream=bool(body.get("stream")),
            include_usage=isinstance(options, Mapping) and bool(options.get("include_usage")),
            ignore_eos=bool(body.get("ignore_eos")),
            logprobs=logprobs,
            return_token_ids=bool(body.get("return_token_ids")),
        )


@dataclass(frozen=True)
class Answer:
    """Makes the bodies of one request's answer."""

    completion: Completion
    model: str
    id: str
    created: int

    @classmethod
    def to(cls, completion: Completion, model: str) -> Answer:
        return cls(completion, model, f"cmpl-{uuid.uuid4().hex}", int(time.time()))

    def body(self, tokens: list[Generated]) -> dict[str, Any]:
        """The answer, or the event for the newest tokens of a stream; without usage."""
        choice: dict[str, Any] = {
            "index": 0,
            "text": join([generated.token for generated in tokens]),
            "logprobs": self._logprobs(tokens),
            "finish_reason": tokens[-1].finish_reason if tokens else None,
        }
        if self.completion.return_token_ids:
            choice["token_ids"] = [generated.token for generated in tokens]
        return {**self._head(), "choices": [choice]}

    def usage(self, completion_tokens: int) -> dict[str, Any]:
        """The usage object. There is no prefix cache, so nothing is ever cached."""
        prompt = len(self.completion.prompt)
        return {
            "prompt_tokens": prompt,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt + completion_tokens,
            "prompt_tokens_details": {"cached_tokens": 0},
        }

    def usage_event(self, completion_tokens: int) -> dict[str, Any]:
        """The last event of a stream that asked for usage."""
        return {**self._head(), "choices": [], "usage": self.usage(completion_tokens)}

    def _head(self) -> dict[str, Any]:
        return {"id": self.id, "object": "text_completion", "created": self.created, "model": self.model}

    def _logprobs(self, tokens: list[Generated]) -> dict[str, Any] | None:
        count = self.completion.logprobs
        if count is None:
            return None
        rows = [_log_softmax(generated.logits) for generated in tokens if generated.logits is not None]
        pairs = list(zip(tokens, rows, strict=True))
        return {
            "tokens": [decode(generated.token) for generated in tokens],
            "token_ids": [generated.token for generated in tokens],
            "token_logprobs": [_number(row[generated.token]) for generated, row in pairs],
            "top_logprobs": [
                {decode(int(token)): _number(row[token]) for token in np.argsort(-row, kind="stable")[:count]}
                for row in rows
            ],
        }


def error_body(message: str, code: int) -> dict[str, Any]:
    """The error object that clients of this API expect."""
    kind = "BadRequestError" if code == 400 else "InternalServerError"
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def _prompt(value: object, config: ModelConfig) -> list[int]:
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], (list, str)):
        value = value[0]
    tokens = encode(value) if isinstance(value, str) else value
    if not isinstance(tokens, list) or not tokens:
        raise BadRequest("prompt must be one text or one list of token ids, and not empty.")
    for token in tokens:
        if not isinstance(token, int) or isinstance(token, bool) or not 0 <= token < config.vocab:
            raise BadRequest(f"prompt holds {token!r}, which is not a token id below {config.vocab}.")
    return tokens


def _integer(body: Mapping[str, object], name: str, default: int, least: int) -> int:
    value = body.get(name)
    if value is None:
        return default
    if not isinstance(value, int) or value < least:
        raise BadRequest(f"{name} must be a whole number of at least {least}, not {value!r}.")
    return int(value)


def _log_softmax(logits: Array) -> Array:
    with np.errstate(all="ignore"):
        shifted = logits - logits.max()
        result: Array = shifted - np.log(np.exp(shifted).sum())
    return result


def _number(value: np.float32) -> float | None:
    # JSON has no NaN.
    return float(value) if np.isfinite(value) else None
