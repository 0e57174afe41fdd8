"""A workload from the flows of SimCCL: `--workload simccl:FILE`."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from railweave.framework.errors import ExperimentError
from railweave.framework.model import Fabric, Schedule
from railweave.framework.model.arrays import Lists
from railweave.framework.parameters import Parameter
from railweave.traffic.collectives.entries import Entries
from railweave.traffic.workloads.replay import ReplayedWorkload
from railweave.traffic.workloads.simccl_file import FlowColumns, read
from railweave.traffic.workloads.simccl_order import brought, dependencies, in_order, places


class SimCcl(ReplayedWorkload):
    """The point-to-point flows into which SimCCL takes NCCL's collectives apart, rank i on the ith GPU.

    A flow begins when its parents have arrived, and, as NCCL does a communicator's operations one after the
    other, when its sender's part in its collective before, in the order of the file, is complete. `size` is
    what the busiest GPU sends: all flows are scaled by one factor and rounded to whole elements, at least
    one; with `scaled` false flows have the bytes of the file, whatever `size` is. The file does not tell
    which flows reduce, so that data is copied: a flow passes on what its first parent of equal size brought
    its sender, all others send data of their own. Source: SimCCL and SimAI (Alibaba Cloud), see
    `simccl_file`.
    """

    summary = "SimCCL's point-to-point flows of NCCL collectives: --workload simccl:FILE"
    kind = "flow-models"
    parameters: tuple[Parameter, ...] = (
        Parameter("file", "", "text", "the CSV of flows, ncclFlowModel_detailed_flows.csv"),
        Parameter("scaled", True, "bool", "scale all flows so that the busiest GPU sends `size`"),
    )

    def __init__(self, file: str = "", *, scaled: bool = True) -> None:
        self._file, self._scaled = file, scaled

    def schedule(
        self, fabric: Fabric, ranks: Sequence[int], size_bytes: int, dtype: str, redop: str
    ) -> Schedule:
        """Raises ExperimentError with file and line for flows that cannot be carried out."""
        itemsize = np.dtype(dtype).itemsize
        flows, waits = self._ordered
        if flows.n_ranks > len(ranks):
            beyond = np.maximum(flows.src, flows.dst) == flows.n_ranks - 1
            raise flows.refuse(
                int(np.where(beyond, flows.line, flows.line.max() + 1).argmin()),
                f"rank {flows.n_ranks - 1} is beyond the {len(ranks)} GPUs there are. Use {flows.n_ranks} "
                "GPUs or more.",
            )
        busiest = int(np.bincount(flows.src, flows.size).max())
        count = (size_bytes if self._scaled else busiest) // itemsize
        factor = (count * itemsize if self._scaled else busiest) / max(busiest, 1)
        entries, buffer_count = Entries(len(ranks), itemsize), 0
        if factor > 0:
            length = np.maximum(np.rint(flows.size * factor / itemsize), flows.size > 0).astype(np.int64)
            first, to, buffer_count = places(flows.src, flows.dst, length, brought(flows, length))
            for name in flows.names:
                entries.phase(name)
            entries.add(
                flows.src,
                flows.dst,
                first=first,
                to=to,
                length=length,
                after=waits,
                slot=np.arange(len(length)),
                phase=flows.collective,
            )
        return entries.build("simccl", count, dtype, redop, buffer_count=buffer_count)

    @cached_property
    def _ordered(self) -> tuple[FlowColumns, Lists]:
        """The flows in the order in which they are sent, and the flows that each waits for; read at the
        first use."""
        if not self._file:
            raise ExperimentError("simccl needs a file: --workload simccl:FILE, or the option `file`.")
        flows = in_order(read(self._file))
        return flows, dependencies(flows)
