"""The traffic of one training iteration with pipeline, tensor and data parallelism, as a schedule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from railweave.framework.errors import ExperimentError
from railweave.framework.llm.models import MODELS, model_named
from railweave.framework.llm.placement import SERVES, place, scaled_degrees
from railweave.framework.llm.traffic_matrix import Traffic, traffic
from railweave.framework.llm.volumes import Job, job_of_batch
from railweave.framework.model import Fabric, PacketFormat, Schedule
from railweave.framework.parameters import Parameter, Value, resolve
from railweave.traffic.collectives.all_reduce import check_ranks, element_count
from railweave.traffic.collectives.arithmetic import dtype_of
from railweave.traffic.collectives.plan import Plan
from railweave.traffic.workloads.layout import emulated_microbatches, layout
from railweave.traffic.workloads.replay import Replayed
from railweave.traffic.workloads.training import Iteration


class Ptdp(Replayed):
    """One iteration of a GPT's training: 1F1B (interleaved), sequence parallelism, gradients synchronised at the end.

    Tensor groups lie in an HB domain; pipeline and data parallelism join equal ranks. On a fabric of fewer GPUs
    than tp x pp x dp the groups are smaller, and each GPU still sends what a GPU of the whole job sends. Bytes are
    scaled so that the busiest GPU sends `size`. Computation takes no time here.
    Source: rail-only paper, sections 3.1 and 4.1; Narayanan et al., SC '21; Korthikanti et al.
    """

    summary = "one training iteration of a GPT with pipeline, tensor and data parallelism (rail-only paper)"
    kind = "training-iteration"
    serves: tuple[str, ...] = SERVES
    parameters: tuple[Parameter, ...] = (
        Parameter("model", "gpt-1t", "text", "the model that is trained", choices=tuple(MODELS)),
        Parameter("tp", 8, "count", "tensor parallelism", minimum=1),
        Parameter("pp", 8, "count", "pipeline parallelism", minimum=1),
        Parameter("dp", 4, "count", "data parallelism", minimum=1),
        Parameter("interleave", 1, "count", "model chunks per pipeline stage", minimum=1),
        Parameter("microbatch", 1, "count", "samples in a microbatch", minimum=1),
        Parameter("batch", 512, "count", "samples in an iteration", minimum=1),
        Parameter(
            "microbatches",
            4,
            "count",
            "microbatches that are emulated, each for several; 0 for all",
            minimum=0,
        ),
    )

    def __init__(self, options: Mapping[str, Value] | None = None) -> None:
        self._options = dict(options) if options else resolve("ptdp", self.parameters, {})

    def configured(self, options: Mapping[str, Value]) -> Ptdp:
        return Ptdp(options)

    @property
    def job(self) -> Job:
        """The whole job. Raises ExperimentError where degrees do not divide model or batch."""
        names = ("tp", "pp", "dp", "microbatch", "interleave", "batch")
        return job_of_batch(
            model_named(str(self._options["model"])), *(int(self._options[name]) for name in names)
        )

    def traffic(self, fabric: Fabric) -> Traffic:
        """What the GPUs of `fabric` send, in bytes of the real job."""
        job = self.job
        return traffic(job, place(fabric, *scaled_degrees(fabric, job.t, job.p, job.d), job.v))

    def schedule(
        self, fabric: Fabric, ranks: Sequence[int], size_bytes: int, dtype: str, redop: str
    ) -> Schedule:
        """The messages of one iteration; `size_bytes` is what the busiest GPU sends. Takes all GPUs of the fabric.

        Messages of one kind are equal: each is rounded to whole elements and has at least one, so small sizes send
        a little more than was asked for.
        """
        check_ranks(fabric, ranks)
        busiest = element_count(size_bytes, dtype, redop)
        if len(ranks) != fabric.n_gpus:
            raise ExperimentError(
                f"a training iteration takes all {fabric.n_gpus} GPUs of the fabric, not {len(ranks)}."
            )
        job = self.job
        placed = place(fabric, *scaled_degrees(fabric, job.t, job.p, job.d), job.v)
        most = int(self._options["microbatches"]) or job.m
        sizes = layout(job, placed, busiest, emulated_microbatches(job.m, placed.p, job.v, most))
        plan = Plan(len(ranks), dtype_of(dtype).itemsize)
        if sizes.count:
            rank_of = np.empty(fabric.n_gpus, np.int64)
            rank_of[np.asarray(ranks)] = np.arange(len(ranks))
            Iteration(plan, placed, sizes, rank_of[placed.gpu]).fill()
        return plan.schedule("ptdp", busiest, dtype, redop, buffer_count=sizes.count)

    def busbw_factor(self, n_ranks: int) -> float:
        """1: the size is what the busiest GPU sends, so size over time is the rate at which it sends."""
        return 1.0

    def closed_form_s(self, fabric: Fabric, schedule: Schedule, packet: PacketFormat) -> float | None:
        """None: passes of different stages overlap, and no formula says how far."""
        return None
