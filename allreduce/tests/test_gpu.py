"""The kernels on one GPU: two virtual ranks against the bitwise reference. More in benchmarks/allreduce.py."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="needs torch with CUDA")

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")]


@pytest.mark.parametrize("line", ["LL8", "F16"])
@pytest.mark.parametrize("hidden", [4096, 4095])
def test_two_virtual_ranks_are_right_to_the_bit(line: str, hidden: int) -> None:
    from ungate_allreduce.screen import EPSILON, KINDS, draw
    from ungate_allreduce.trial import Expected, Trial
    from ungate_allreduce.variant import Dtype, Line, Variant, fitting
    from ungate_allreduce.virtual import VirtualWorld

    variant = fitting(Variant(2, Dtype.BFLOAT16, Line[line], 1, hidden, 256, aligned=hidden % 8 == 0, virtual=2))
    world = VirtualWorld(2, 256 << 10)
    for kind in KINDS:
        expected = Expected(draw(kind, 2, 3, hidden, Dtype.BFLOAT16, 1), variant)
        trials = [Trial(expected, variant, rank) for rank in range(2)]
        world.launch(variant, 3, [trial.addresses for trial in trials], epsilon=EPSILON)
        torch.cuda.synchronize()
        assert world.reports() == [0, 0]
        for trial in trials:
            assert trial.wrong() == {"residual_out": 0, "out": 0}
    world.close()
