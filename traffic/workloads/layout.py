"""Offsets and sizes of the messages of a training iteration in the buffers of the ranks."""

from dataclasses import dataclass

from railweave.framework.training.placement import Placement
from railweave.framework.training.traffic_matrix import reduced_bytes, traffic
from railweave.framework.training.volumes import Job, volumes


@dataclass(frozen=True, slots=True)
class Layout:
    """Lengths in elements: `chunk` of a tensor group's array per rank, `edge` between stages, `gradients`.

    A buffer has space of its own for every (direction, microbatch, chunk of the model): the activations from
    the stage before, the array that the tensor group gathers, and the one that it reduces. The gradients
    follow. So no message overwrites data that another one has yet to read.
    """

    m: int
    v: int
    t: int
    chunk: int
    edge: int
    gradients: int

    @property
    def place(self) -> int:
        return self.edge + 2 * self.t * self.chunk

    @property
    def first_gradient(self) -> int:
        return 2 * self.m * self.v * self.place

    @property
    def count(self) -> int:
        return self.first_gradient + self.gradients

    def edge_at(self, forward: bool, microbatch: int, chunk: int) -> int:
        """First element of what the stage before sends (backward: the stage after)."""
        return (((0 if forward else 1) * self.m + microbatch) * self.v + chunk) * self.place

    def gathered_at(self, forward: bool, microbatch: int, chunk: int) -> int:
        """First element of the array that the tensor group gathers."""
        return self.edge_at(forward, microbatch, chunk) + self.edge

    def reduced_at(self, forward: bool, microbatch: int, chunk: int) -> int:
        """First element of the array that the tensor group reduces and scatters."""
        return self.gathered_at(forward, microbatch, chunk) + self.t * self.chunk


def emulated_microbatches(m: int, p: int, v: int, most: int) -> int:
    """At most `most` of the job's m, each representing several; whole rounds of p where stages interleave."""
    few = min(m, most)
    return few if v == 1 else max(p, few // p * p)


def layout(job: Job, placed: Placement, busiest: int, microbatches: int) -> Layout:
    """Sizes with which the busiest GPU sends about `busiest` elements in all.

    Every message of the job has at least one element, so that small kinds do not vanish.
    """
    sent = traffic(job, placed).sent
    scale = busiest / float(sent.max()) if sent.size and sent.max() > 0 else 0.0
    per, each = volumes(job), job.m / microbatches
    chunk = each * per.tensor / 2 / (placed.t - 1) if placed.t > 1 else 0.0
    gradients = reduced_bytes(job, placed) if placed.d > 1 else 0.0

    def elements(size: float, least: int) -> int:
        return max(least, round(size * scale)) if size > 0 and scale > 0 else 0

    edge = elements(each * per.edge, 1) if placed.p > 1 else 0
    return Layout(microbatches, job.v, placed.t, elements(chunk, 1), edge, elements(gradients, placed.d))
