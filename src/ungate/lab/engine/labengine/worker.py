"""One rank: takes a step from the board, computes it, answers."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass

import numpy as np

from labengine import fused_comm
from labengine.board import Board
from labengine.distributed import GroupMemory, TensorParallelGroup, get_tp_group, set_tp_group
from labengine.faults import Fault
from labengine.models import Weights
from labengine.server_args import ServerArgs, set_global_server_args
from labengine.transformer import ShardedDecoder

__all__ = ["Inheritance", "run_rank"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Inheritance:
    """What a rank gets from the process that forks it."""

    args: ServerArgs
    weights: Weights
    board: Board
    group: GroupMemory


def run_rank(inherited: Inheritance, rank: int) -> None:
    """Serve steps for ever; errors of the start and of a step pass through."""
    args, board = inherited.args, inherited.board
    fault = Fault(rank, args.tp)
    # A wrong kernel computes nonsense; that is for the outputs to show and not for warnings.
    np.seterr(all="ignore")
    set_global_server_args(args)
    set_tp_group(TensorParallelGroup(inherited.group, rank))
    decoder = ShardedDecoder(args.config, inherited.weights, rank, args.tp, args.max_num_seqs)
    fault.at_start()
    board.ready(rank)
    logger.info("rank %d of %d is ready: pid %d", rank, args.tp, os.getpid())
    steps = 0
    while True:
        entries, tokens = board.take(rank)
        if entries:
            logits = decoder.forward(entries, tokens)
            fault.in_step(logits)
            board.logits[: len(entries), decoder.vocab] = logits
            steps += 1
        counters = (steps, get_tp_group().all_reduce_calls, fused_comm.fused_calls(), fused_comm.fused_polls())
        board.answer(rank, counters)
