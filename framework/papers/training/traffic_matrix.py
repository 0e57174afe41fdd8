"""What an iteration of PTD-P training (pipeline, tensor and data parallelism) moves: how much, and who sends
it to whom."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from railweave.framework.errors import ExperimentError
from railweave.framework.model.arrays import ArrayNoun, Float, Int64
from railweave.framework.papers.training.models import LanguageModel
from railweave.framework.papers.training.placement import Placement

KINDS = ("tp", "pp", "dp")


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """A model on t x p x d GPUs: b samples in a microbatch, v chunks per stage, m microbatches per
    iteration."""

    model: LanguageModel
    t: int
    p: int
    d: int
    b: int = 1
    v: int = 1
    m: int = 1

    def __post_init__(self) -> None:
        for name in ("t", "p", "d", "b", "v", "m"):
            if getattr(self, name) < 1:
                raise ExperimentError(
                    f"training {self.model.name}: {name} is {getattr(self, name)}, not 1 or more."
                )
        if self.model.layers % (self.p * self.v):
            raise ExperimentError(
                f"{self.model.name} has {self.model.layers} layers, which {self.p} stages of {self.v} chunks "
                "do not divide (constraint 18). Change pp or interleave."
            )
        for label, length in (("sequence", self.model.sequence), ("hidden size", self.model.hidden)):
            if length % self.t:
                raise ExperimentError(
                    f"{self.model.name}: tensor parallelism {self.t} does not divide the {label} {length} "
                    "(constraint 18). Change tp."
                )


def job_of_batch(model: LanguageModel, t: int, p: int, d: int, b: int, v: int, batch: int) -> TrainingJob:
    """The job with m = B / (d b) microbatches (constraint 13); ExperimentError when m is not an integer."""
    samples = TrainingJob(model, t, p, d, b, v).d * b
    if batch < 1 or batch % samples:
        raise ExperimentError(
            f"a batch of {batch} does not divide into microbatches of {b} on {d} data-parallel ranks "
            f"(constraint 13). Choose a batch that is a multiple of {samples}."
        )
    return TrainingJob(model, t, p, d, b, v, batch // samples)


@dataclass(frozen=True, slots=True)
class Volumes:
    """Bytes. `tensor`: what a GPU sends to its tensor group in one pass of one microbatch through one chunk,
    half of it by all-gathers and half by reduce-scatters. `edge`: what it sends to the next stage per
    microbatch and chunk, in each direction. `gradients`: the array of the data-parallel all-reduce."""

    tensor: float
    edge: float
    gradients: float


def volumes(job: TrainingJob) -> Volumes:
    """The volumes of equations 6 and 7, with sequence parallelism and 16-bit elements.

    A layer takes four all-gathers or reduce-scatters of 2 b h s bytes forward and four backward; the edge
    between stages carries 2 b h s / t; gradients are 2 l S_T / (p t), reduce-scattered and gathered.
    """
    model = job.model
    activations = 2.0 * job.b * model.hidden * model.sequence
    gathers = 4 * model.layers / (job.p * job.v)
    return Volumes(
        tensor=gathers * activations * (job.t - 1) / job.t,
        edge=activations / job.t,
        gradients=2.0 * model.layers * model.layer_parameters / (job.p * job.t),
    )


@dataclass(frozen=True, eq=False)
class Demands(ArrayNoun):
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
        total = float(sums.sum())
        return {kind: float(sums[i]) / total if total else 0.0 for i, kind in enumerate(KINDS)}

    @property
    def silent_pairs(self) -> float:
        """The share of ordered pairs of GPUs that exchange nothing."""
        return 1 - np.unique(self.src * self.n_gpus + self.dst).size / (self.n_gpus * (self.n_gpus - 1))


def traffic(job: TrainingJob, placed: Placement) -> Demands:
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
        for stage, next_stage, chunks in (
            (gpu[:, :-1], gpu[:, ends[:-1]], job.v),
            (gpu[:, -1:], gpu[:, :1], job.v - 1),
        ):
            once = job.m * chunks * per.edge
            rows += [(stage, next_stage, 1, once), (next_stage, stage, 1, once)]
    if placed.d > 1:
        array = reduced_bytes(job, placed)
        dl, dh = placed.d // placed.dh, placed.dh
        grid = gpu.reshape(dl, dh, placed.p, placed.t)
        if dh > 1:
            rows.append((grid, np.roll(grid, -1, axis=1), 2, 2 * array * (dh - 1) / dh))
        if dl > 1:
            rows.append((grid, np.roll(grid, -1, axis=0), 2, 2 * array * (dl - 1) / (dl * dh)))
    rows = [row for row in rows if row[3] > 0 and row[0].size]
    parts = [np.broadcast_arrays(*row) for row in rows]
    columns = (np.concatenate([np.empty(0), *(part[i].ravel() for part in parts)]) for i in range(4))
    return Demands(placed.gpu.size, *columns)


def reduced_bytes(job: TrainingJob, placed: Placement) -> float:
    """The array whose all-reduce over the placed group makes a GPU send what it sends in the whole job's
    group."""
    return volumes(job).gradients * ((job.d - 1) / job.d) / ((placed.d - 1) / placed.d)
