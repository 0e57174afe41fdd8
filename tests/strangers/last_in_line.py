"""A collective as somebody else writes it: a chain in which slow ranks come last, as nobody waits there."""

from __future__ import annotations

import numpy as np

from railweave.framework.hookspecs import hookimpl
from railweave.framework.model import Schedule

API = 1


class LastInLine:
    """Rank 0 hands what it has to the first in line, who hands it on."""

    summary = "a chain from rank 0, slow ranks last"
    kind = "chain"
    parameters = serves = requires = ()
    same_result_everywhere = True
    wants_health = True

    def configured(self, options):
        return self

    def schedule(self, fabric, ranks, size_bytes, dtype, redop, health):
        n, gpus = len(ranks), np.asarray(ranks)
        speed = np.ones(fabric.n_gpus)
        np.minimum.at(speed, fabric.link_src[fabric.link_src < fabric.n_gpus],
                      health.link_score[fabric.link_src < fabric.n_gpus])  # fmt: skip
        line = np.append(0, 1 + np.argsort(-speed[gpus[1:]], kind="stable"))
        size = size_bytes // np.dtype(dtype).itemsize * np.dtype(dtype).itemsize
        zero = np.zeros(n - 1, np.int64)
        return Schedule(
            "last-in-line", n, size, dtype, redop, size,
            line[:-1], line[1:], zero, zero, np.full(n - 1, size), zero, zero,
            np.maximum(np.arange(n) - 1, 0), np.arange(n - 2),
        )  # fmt: skip

    def inputs(self, schedule, seed):
        kind = np.dtype(schedule.dtype)
        first = np.random.default_rng(seed).integers(1, 50, schedule.buffer_bytes // kind.itemsize)
        return [(first * (rank == 0)).astype(kind) for rank in range(schedule.n_ranks)]

    def expected(self, schedule, inputs, rank):
        return inputs[0]

    def busbw_factor(self, n_ranks):
        return 1.0

    def closed_form_s(self, fabric, schedule, packet):
        return None


@hookimpl
def register_collectives(register):
    register("last-in-line", LastInLine())
