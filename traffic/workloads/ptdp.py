"""The traffic of one training iteration with pipeline, tensor and data parallelism, as a schedule."""

from collections.abc import Sequence

import numpy as np

from railweave.framework.model import Fabric, Schedule
from railweave.framework.papers.training.clusters import GPUS
from railweave.framework.papers.training.iteration import Calibration, compute_s
from railweave.framework.papers.training.models import MODELS, model_named
from railweave.framework.papers.training.placement import REQUIRES, place, scaled_degrees
from railweave.framework.papers.training.traffic_matrix import TrainingJob, job_of_batch
from railweave.framework.parameters import Parameter, Value, resolve
from railweave.traffic.collectives.entries import Entries
from railweave.traffic.workloads.replay import ReplayedWorkload
from railweave.traffic.workloads.training import Iteration, emulated_microbatches, layout, share, symmetries

NO_GPU = "none"


class Ptdp(ReplayedWorkload):
    """One iteration of a GPT's training: 1F1B (interleaved), sequence parallelism, gradients synchronised at
    the end.

    Tensor groups lie in an HB domain; pipeline and data parallelism connect equal ranks of domains. On a
    fabric of fewer GPUs than tp x pp x dp the groups are smaller, and each GPU still sends what a GPU of the
    whole job sends. Bytes are scaled so that the busiest GPU sends `size`, and so is the time of computation,
    if `compute` names a GPU: a microbatch's by equation 10, a third of it forward (Narayanan et al.), between
    gathering and reducing. Source: rail-only paper, sections 3.1, 4.1 and 4.2; Narayanan et al., SC '21;
    Korthikanti et al.
    """

    summary = "one training iteration of a GPT with pipeline, tensor and data parallelism (rail-only paper)"
    kind = "training-iteration"
    requires: tuple[str, ...] = REQUIRES
    parameters: tuple[Parameter, ...] = (
        Parameter("model", "gpt-1t", "text", "the model that is trained", choices=tuple(MODELS)),
        Parameter("tp", 8, "count", "tensor parallelism", minimum=1),
        Parameter("pp", 8, "count", "pipeline parallelism", minimum=1),
        Parameter("dp", 4, "count", "data parallelism", minimum=1),
        Parameter("interleave", 1, "count", "model chunks per pipeline stage", minimum=1),
        Parameter("microbatch", 1, "count", "samples in a microbatch", minimum=1),
        Parameter("batch", 512, "count", "samples in an iteration", minimum=1),
        Parameter("compute", NO_GPU, "text", "the GPU whose computation takes time", choices=(NO_GPU, *GPUS)),
        Parameter(
            "microbatches", 4, "count", "microbatches that are emulated, each representing several; 0: all", 0
        ),
    )

    def __init__(self, **options: Value) -> None:
        self._options = resolve("ptdp", self.parameters, options)

    @property
    def job(self) -> TrainingJob:
        """The whole job. Raises ExperimentError where degrees do not divide model or batch."""
        names = ("tp", "pp", "dp", "microbatch", "interleave", "batch")
        return job_of_batch(
            model_named(str(self._options["model"])), *(int(self._options[name]) for name in names)
        )

    def schedule(
        self, fabric: Fabric, ranks: Sequence[int], size_bytes: int, dtype: str, redop: str
    ) -> Schedule:
        """The messages of one iteration; `size_bytes` is what the busiest GPU sends. Ranks are all GPUs of
        some domains on some rails.

        Messages of one kind are equal: each is rounded to whole elements and has at least one, so that with
        small sizes a little more is sent.
        """
        itemsize = np.dtype(dtype).itemsize
        job = self.job
        placed = place(fabric, *scaled_degrees(fabric, job.t, job.p, job.d, ranks), job.v, ranks)
        most = int(self._options["microbatches"]) or job.m
        busiest = size_bytes // itemsize
        emulated = emulated_microbatches(job.m, placed.p, job.v, most)
        sizes = layout(job, placed, busiest, emulated)
        pass_s = self._pass_s(job) * share(job, placed, size_bytes) * job.m / emulated
        entries = Entries(len(ranks), itemsize)
        if sizes.count:
            Iteration(entries, placed, sizes, placed.gpu, pass_s / 3, pass_s * 2 / 3).add_all()
        return entries.build(
            "ptdp", busiest, dtype, redop, buffer_count=sizes.count, symmetries=symmetries(placed)
        )

    def notes(self, fabric: Fabric, ranks: Sequence[int]) -> list[str]:
        """That the job has fewer ranks here than its degrees say."""
        job = self.job
        t, p, d = scaled_degrees(fabric, job.t, job.p, job.d, ranks)
        if (t, p, d) == (job.t, job.p, job.d):
            return []
        degrees = f"tensor {job.t} x pipeline {job.p} x data {job.d} is {job.t * job.p * job.d} ranks"
        fewer = f"there are {len(ranks)} GPUs: the job is reduced to {t} x {p} x {d}"
        return [f"ptdp: {degrees}, and {fewer}; a GPU sends its bytes of the whole job, scaled to `size`"]

    def _pass_s(self, job: TrainingJob) -> float:
        """What a GPU computes for one microbatch in one of its model chunks, forward and backward."""
        if (name := str(self._options["compute"])) == NO_GPU:
            return 0.0
        return compute_s(job.model, GPUS[name], Calibration()) * job.b / (job.p * job.t * job.v)
