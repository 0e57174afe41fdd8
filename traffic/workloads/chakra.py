"""A workload from Chakra execution traces: `--workload chakra:DIR`."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from railweave.framework.errors import ExperimentError
from railweave.framework.model import Fabric, Schedule
from railweave.framework.parameters import Parameter
from railweave.traffic.workloads.chakra_file import Trace, read
from railweave.traffic.workloads.chakra_match import COMPUTATION
from railweave.traffic.workloads.chakra_order import Ordered, ordered
from railweave.traffic.workloads.chakra_traffic import TracedTraffic
from railweave.traffic.workloads.replay import ReplayedWorkload


class Chakra(ReplayedWorkload):
    """The communication of a trace, one rank per GPU in order; each node begins when those it depends on are
    complete.

    `size` is what the busiest GPU sends; all sizes of the trace are scaled by one factor, and rounded to
    whole shares of at least one element (all-gather, reduce-scatter and all-to-all: 16 bytes), so that with
    very small sizes more is sent; with `scaled` false they are those of the trace, whatever `size` is.
    Computation takes no time, its dependencies are kept; with `compute` it takes the duration of the trace,
    or without one its `num_ops` over `flops`, scaled as the sizes, and a rank computes one thing at a time. A
    message is sent
    when its send node is due, whether or not its receive node is; a member of a collective begins when its
    own node is due. Source: MLCommons Chakra; sizes and groups are interpreted as in ASTRA-sim: `comm_size`
    is what one rank contributes, a group without a definition or a name is all ranks.
    """

    summary = "a Chakra execution trace, one file for each rank: --workload chakra:DIR"
    kind = "execution-trace"
    parameters: tuple[Parameter, ...] = (
        Parameter("file", "", "text", "the directory of the trace, or DIR/PREFIX"),
        Parameter(
            "two_levels", True, "bool", "groups that fill domains and rails use both; false: rings throughout"
        ),
        Parameter("scaled", True, "bool", "scale all sizes so that the busiest GPU sends `size`"),
        Parameter("compute", False, "bool", "computations take the time that the trace says"),
        Parameter(
            "flops",
            "none",
            "factor",
            "operations per second of a GPU, where only num_ops are known",
            1,
            word="none",
        ),
    )

    def __init__(
        self,
        file: str = "",
        *,
        two_levels: bool = True,
        scaled: bool = True,
        compute: bool = False,
        flops: float | str = "none",
    ) -> None:
        self._file, self._two_levels, self._scaled, self._compute = file, two_levels, scaled, compute
        self._flops = 0.0 if flops == "none" else float(flops)
        self._notes: tuple[str, ...] = ()

    def notes(self, fabric: Fabric, ranks: Sequence[int]) -> Sequence[str]:
        """What the trace itself sends, once a schedule was made."""
        return self._notes

    def schedule(
        self, fabric: Fabric, ranks: Sequence[int], size_bytes: int, dtype: str, redop: str
    ) -> Schedule:
        """Raises ExperimentError with file and node for a trace that cannot be carried out."""
        itemsize = np.dtype(dtype).itemsize
        trace, operations = self._contents
        if len(ranks) != len(trace.ranks):
            raise ExperimentError(
                f"{trace.path} is a trace of {len(trace.ranks)} ranks and there are {len(ranks)} GPUs. Use a "
                "fabric of as many GPUs, or a trace of as many ranks."
            )
        traffic = TracedTraffic(fabric, ranks, dtype, redop, two_levels=self._two_levels)
        traced_bytes = round(float(traffic.sent([task.operation for task in operations]).max()))
        size = (size_bytes if self._scaled else traced_bytes) // itemsize * itemsize
        how = "scaled to the size of the run" if self._scaled else "which is the size of the run"
        self._notes = (f"{trace.path}: as traced, its busiest rank sends {traced_bytes} bytes, {how}",)
        return traffic.schedule(
            operations, size, (size / traced_bytes if traced_bytes else 0.0) if self._scaled else 1.0
        )

    @cached_property
    def _contents(self) -> tuple[Trace, list[Ordered]]:
        """The trace and what it sends, read at its first use: comparing results needs no files."""
        if not self._file:
            raise ExperimentError("chakra needs a trace: --workload chakra:DIR, or the option `file`.")
        trace = read(self._file)
        operations = ordered(trace, compute=self._compute, flops=self._flops)
        if all(task.operation.kind == COMPUTATION for task in operations):
            raise ExperimentError(
                f"{self._file} sends nothing: it has no send, no receive and no collective of two ranks or "
                "more with a comm_size. Trace a step that communicates."
            )
        return trace, operations
