"""A workload from the flows of SimCCL: `--workload simccl:FILE`."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from railweave.framework.errors import ExperimentError
from railweave.framework.model import Fabric, Schedule
from railweave.framework.model.arrays import Int64
from railweave.framework.parameters import Parameter
from railweave.traffic.collectives.operations import check_ranks, checked_itemsize
from railweave.traffic.workloads.replay import Workload
from railweave.traffic.workloads.simccl_file import Flows, read
from railweave.traffic.workloads.simccl_order import brought, dependencies, in_order, places


class SimCcl(Workload):
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
        check_ranks(fabric, ranks)
        itemsize = checked_itemsize(size_bytes, dtype, redop)
        flows, order, after_start, after = self._ordered
        if flows.n_ranks > len(ranks):
            least = int(np.argmax(np.maximum(flows.src, flows.dst)))
            raise flows.refuse(
                least,
                f"rank {flows.n_ranks - 1} is beyond the {len(ranks)} GPUs there are. Use {flows.n_ranks} "
                "GPUs or more.",
            )
        size = flows.size[order]
        busiest = int(np.bincount(flows.src, flows.size).max())
        if self._scaled:
            size_bytes = size_bytes // itemsize * itemsize
        factor = (size_bytes if self._scaled else busiest) / max(busiest, 1)
        if factor == 0:  # nothing is to be sent
            order, size, after_start, after = order[:0], size[:0], after_start[:1], after[:0]
        length = np.where(size > 0, np.maximum(np.rint(size * factor / itemsize), 1), 0).astype(np.int64)
        src, dst = flows.src[order], flows.dst[order]
        first, to, count = places(src, dst, length, brought(flows, order, length))
        return Schedule(
            collective="simccl",
            n_ranks=len(ranks),
            size_bytes=size_bytes if self._scaled else busiest // itemsize * itemsize,
            dtype=dtype,
            redop=redop,
            buffer_bytes=count * itemsize,
            src=src.astype(np.int32),
            dst=dst.astype(np.int32),
            src_offset=first * itemsize,
            dst_offset=to * itemsize,
            size=length * itemsize,
            reduce=np.zeros(len(src), np.int32),
            phase=flows.collective[order].astype(np.int32),
            after_start=after_start,
            after=after,
            phase_names=flows.names if len(src) else (),
        )

    @cached_property
    def _ordered(self) -> tuple[Flows, Int64, Int64, Int64]:
        """The flows, read at the first use; their order, each after those it waits for; and, numbered in this
        order, the flows that each waits for."""
        if not self._file:
            raise ExperimentError("simccl needs a file: --workload simccl:FILE, or the option `file`.")
        flows = read(self._file)
        order = in_order(flows)
        return flows, order, *dependencies(flows, order)
