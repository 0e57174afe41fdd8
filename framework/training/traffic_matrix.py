"""The traffic matrix of one iteration of PTD-P training (pipeline, tensor and data parallelism)."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from railweave.framework.model.arrays import ArrayNoun, Float, Int64
from railweave.framework.training.placement import Placement
from railweave.framework.training.volumes import Job, volumes

KINDS = ("tp", "pp", "dp")


@dataclass(frozen=True, eq=False)
class Traffic(ArrayNoun):
    """Demands as a list: `src`, `dst` GPUs, `kind` (index into KINDS), `bytes`; a pair may occur more than
    once."""

    n_gpus: int
    src: Int64
    dst: Int64
    kind: Int64
    bytes: Float

    def matrix(self, *kinds: str) -> Float:
        """(n_gpus, n_gpus), bytes, [src, dst]; of these kinds, or of all."""
        chosen = np.isin(self.kind, [KINDS.index(kind) for kind in kinds or KINDS])
        matrix = np.zeros((self.n_gpus, self.n_gpus))
        np.add.at(matrix, (self.src[chosen], self.dst[chosen]), self.bytes[chosen])
        return matrix

    @property
    def sent(self) -> Float:
        """(n_gpus,): bytes that each GPU sends."""
        return np.asarray(np.bincount(self.src, self.bytes, self.n_gpus), float)

    @property
    def total_bytes(self) -> float:
        return float(self.bytes.sum())

    @property
    def shares(self) -> Mapping[str, float]:
        """The share of each kind in all bytes; 0 each when nothing is sent."""
        sums = np.bincount(self.kind, self.bytes, len(KINDS))
        whole = float(sums.sum())
        return {kind: float(sums[i]) / whole if whole else 0.0 for i, kind in enumerate(KINDS)}

    @property
    def silent_pairs(self) -> float:
        """The share of ordered pairs of GPUs that exchange nothing."""
        busy = np.unique(self.src * self.n_gpus + self.dst).size
        return 1 - busy / (self.n_gpus * (self.n_gpus - 1))


def traffic(job: Job, placed: Placement) -> Traffic:
    """What the job's GPUs send, each as much as in the whole job, also where `placed` has smaller groups.

    All collectives are rings: all-gathers and reduce-scatters of tensor groups inside a domain; activations
    and their gradients to the next stage and back; gradients reduced and gathered in the domain and along the
    rail, as in equation 1.
    """
    gpu, per = placed.gpu, volumes(job)
    rows: list[tuple[Int64, Int64, int, float]] = []
    if placed.t > 1:
        rows.append((gpu, np.roll(gpu, -1, axis=2), 0, 2 * job.m * job.v * per.tensor))
    if placed.p > 1:
        ends = np.arange(placed.p) + 1
        for here, there, chunks in (
            (gpu[:, :-1], gpu[:, ends[:-1]], job.v),
            (gpu[:, -1:], gpu[:, :1], job.v - 1),
        ):
            once = job.m * chunks * per.edge
            rows += [(here, there, 1, once), (there, here, 1, once)]
    if placed.d > 1:
        array = reduced_bytes(job, placed)
        dl, dh = placed.d // placed.dh, placed.dh
        grid = gpu.reshape(dl, dh, placed.p, placed.t)
        if dh > 1:
            rows.append((grid, np.roll(grid, -1, axis=1), 2, 2 * array * (dh - 1) / dh))
        if dl > 1:
            rows.append((grid, np.roll(grid, -1, axis=0), 2, 2 * array * (dl - 1) / (dl * dh)))
    rows = [row for row in rows if row[3] > 0 and row[0].size]
    empty = np.empty(0)
    return Traffic(
        placed.gpu.size,
        np.concatenate([empty, *(row[0].ravel() for row in rows)]),
        np.concatenate([empty, *(row[1].ravel() for row in rows)]),
        np.concatenate([empty, *(np.full(row[0].size, row[2]) for row in rows)]),
        np.concatenate([empty, *(np.full(row[0].size, row[3]) for row in rows)]),
    )


def reduced_bytes(job: Job, placed: Placement) -> float:
    """The array whose all-reduce over the placed group makes a GPU send what it sends in the whole job's
    group."""
    return volumes(job).gradients * ((job.d - 1) / job.d) / ((placed.d - 1) / placed.d)
