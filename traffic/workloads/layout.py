"""Where in a rank's buffer each message of a training iteration lies, and how large it is."""

from __future__ import annotations

from dataclasses import dataclass

from railweave.framework.llm.placement import Placement
from railweave.framework.llm.traffic_matrix import reduced_bytes, traffic
from railweave.framework.llm.volumes import Job, volumes


@dataclass(frozen=True, slots=True)
class Layout:
    """Lengths in elements: `chunk` of a tensor group's array per rank, `edge` between stages, `gradients`.

    A buffer holds, for every (direction, microbatch, chunk of the model), a place of its own: the activations that
    came from the stage before, the array that the tensor group gathers, and the one that it reduces. Behind these
    lie the gradients. So no message ever overwrites what another still reads.
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
        """First element of what the stage before sends (backward: the stage behind)."""
        return (((0 if forward else 1) * self.m + microbatch) * self.v + chunk) * self.place

    def gathered_at(self, forward: bool, microbatch: int, chunk: int) -> int:
        """First element of the array that the tensor group gathers."""
        return self.edge_at(forward, microbatch, chunk) + self.edge

    def reduced_at(self, forward: bool, microbatch: int, chunk: int) -> int:
        """First element of the array that the tensor group reduces and scatters."""
        return self.gathered_at(forward, microbatch, chunk) + self.t * self.chunk


def emulated_microbatches(m: int, p: int, v: int, most: int) -> int:
    """At most `most` of the job's m, each standing for several; whole rounds of p where stages interleave."""
    few = min(m, most)
    return few if v == 1 else max(p, few // p * p)


def layout(job: Job, placed: Placement, busiest: int, microbatches: int) -> Layout:
    """Sizes with which the busiest GPU sends about `busiest` elements in all.

    Every message that exists in the job has an element or more, so that small kinds do not vanish.
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
