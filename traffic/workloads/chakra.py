"""A workload from Chakra execution traces: `--workload chakra:DIR`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

from railweave.framework.errors import ExperimentError
from railweave.framework.model import Fabric, PacketFormat, Schedule
from railweave.framework.parameters import Parameter, Value
from railweave.traffic.collectives.all_reduce import check_ranks, element_count
from railweave.traffic.collectives.arithmetic import dtype_of
from railweave.traffic.workloads.chakra_file import Trace, read
from railweave.traffic.workloads.chakra_order import Ordered, ordered
from railweave.traffic.workloads.chakra_traffic import Traffic
from railweave.traffic.workloads.replay import Replayed


class Chakra(Replayed):
    """The communication of a trace, one rank on each GPU in their order; each node when those it depends on are over.

    `size` is what the busiest GPU sends; all sizes of the trace are scaled by one factor, and each to whole shares
    of one element (all-gather, reduce-scatter and all-to-all: 16 bytes) or more, so that very small sizes send more
    than was asked for. Computation takes no time, and only what depends on it is kept. A message leaves when its
    send is due, whether or not its receive is; a member of a collective begins when its own node is due.
    Source: MLCommons Chakra; what sizes and groups mean is as ASTRA-sim takes them: `comm_size` is what one rank
    puts in, a group without a definition or a name is all ranks.
    """

    summary = "a Chakra execution trace, one file for each rank: --workload chakra:DIR"
    kind = "execution-trace"
    serves: tuple[str, ...] = ()
    parameters: tuple[Parameter, ...] = (
        Parameter("file", "", "text", "the directory of the trace, or DIR/PREFIX"),
        Parameter(
            "two_levels", True, "bool", "groups that fill domains and rails use both; false: rings throughout"
        ),
    )

    def __init__(self, file: str = "", *, two_levels: bool = True) -> None:
        self._file, self._two_levels = file, two_levels
        self._trace: Trace | None = None
        self._ordered: list[Ordered] = []

    def configured(self, options: Mapping[str, Value]) -> Self:
        return type(self)(str(options["file"]), two_levels=bool(options["two_levels"]))

    def schedule(
        self, fabric: Fabric, ranks: Sequence[int], size_bytes: int, dtype: str, redop: str
    ) -> Schedule:
        """Raises ExperimentError with file and node for what cannot be carried out."""
        check_ranks(fabric, ranks)
        count = element_count(size_bytes, dtype, redop)
        trace = self._read()
        if len(ranks) != len(trace.ranks):
            raise ExperimentError(
                f"{trace.path} is a trace of {len(trace.ranks)} ranks and there are {len(ranks)} GPUs. Use a fabric of as "
                "many, or a trace of as many ranks."
            )
        traffic = Traffic(fabric, ranks, dtype, redop, two_levels=self._two_levels)
        return traffic.schedule(self._ordered, count * dtype_of(dtype).itemsize)

    def busbw_factor(self, n_ranks: int) -> float:
        """1: the size is what the busiest GPU sends, so size over time is the rate at which it sends."""
        return 1.0

    def closed_form_s(self, fabric: Fabric, schedule: Schedule, packet: PacketFormat) -> float | None:
        """None: a trace has no formula."""
        return None

    def _read(self) -> Trace:
        """The trace, read when it is first needed: whoever only compares results needs no files."""
        if not self._file:
            raise ExperimentError("chakra needs a trace: --workload chakra:DIR, or the option `file`.")
        if self._trace is None:
            trace = read(self._file)
            self._ordered = ordered(trace)
            if not self._ordered:
                raise ExperimentError(
                    f"{self._file} sends nothing: it has no send, no receive and no collective of two ranks or more with "
                    "a comm_size. Trace a step that communicates."
                )
            self._trace = trace
        return self._trace
