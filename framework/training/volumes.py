"""Bytes that one training iteration moves, per GPU and kind of parallelism."""

from dataclasses import dataclass

from railweave.framework.errors import ExperimentError
from railweave.framework.training.models import LanguageModel


@dataclass(frozen=True, slots=True)
class Job:
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
        for what, length in (("sequence", self.model.sequence), ("hidden size", self.model.hidden)):
            if length % self.t:
                raise ExperimentError(
                    f"{self.model.name}: tensor parallelism {self.t} does not divide the {what} {length} "
                    "(constraint 18). Change tp."
                )


def job_of_batch(model: LanguageModel, t: int, p: int, d: int, b: int, v: int, batch: int) -> Job:
    """The job with m = B / (d b) microbatches (constraint 13); ExperimentError when m is not an integer."""
    samples = Job(model, t, p, d, b, v).d * b
    if batch < 1 or batch % samples:
        raise ExperimentError(
            f"a batch of {batch} does not divide into microbatches of {b} on {d} data-parallel ranks "
            f"(constraint 13). Choose a batch that is a multiple of {samples}."
        )
    return Job(model, t, p, d, b, v, batch // samples)


@dataclass(frozen=True, slots=True)
class Volumes:
    """Bytes. `tensor`: what a GPU sends to its tensor group in one pass of one microbatch through one chunk,
    half of it by all-gathers and half by reduce-scatters. `edge`: what it sends to the next stage per
    microbatch and chunk, in each direction. `gradients`: the array of the data-parallel all-reduce."""

    tensor: float
    edge: float
    gradients: float


def volumes(job: Job) -> Volumes:
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
