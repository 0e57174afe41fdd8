"""What the GPUs send."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from numpy.typing import NDArray

from railweave.framework.hookspecs.configurable import Configurable
from railweave.framework.model import Fabric, PacketFormat, Schedule


class Collective(Configurable, Protocol):
    """Plans a collective and knows its arithmetic. `serves` and `requires` as for routers.

    `kind` is the operation in nccl-tests' words, whatever the algorithm: all-reduce, all-gather,
    reduce-scatter, all-to-all, broadcast or send-recv; any other word means that no physical limit is known.
    `same_result_everywhere`: whether `expected` is equal on all ranks, and so computed once.

    `wants_health`: `schedule` is given a sixth argument, the HealthSnapshot of the moment. It is asked again
    when an iteration begins after scores have changed, and its answer is used where that is to end sooner on
    the routes in use; inputs, size, and results stay those of the first schedule.

    Before a run starts every method is called once: a mistake is refused with exit code 2.
    """

    kind: str
    serves: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    same_result_everywhere: bool = False
    wants_health: bool = False

    @abstractmethod
    def schedule(
        self, fabric: Fabric, ranks: Sequence[int], size_bytes: int, dtype: str, redop: str
    ) -> Schedule:
        """The DAG of transfers and local steps for `size_bytes` (nccl-tests' meaning) over the GPUs `ranks`,
        listed or compact. Pure."""

    @abstractmethod
    def inputs(self, schedule: Schedule, seed: int) -> list[NDArray[Any]]:
        """What each rank's data buffer holds before an iteration: small whole numbers, so that sums are
        exact. One array of elements of `schedule.dtype` per rank, of up to `schedule.buffer_bytes`; the rest
        is zero."""

    @abstractmethod
    def expected(self, schedule: Schedule, inputs: Sequence[NDArray[Any]], rank: int) -> NDArray[Any]:
        """What `rank` must hold afterwards, by plain arithmetic over `inputs`, from the start of its output
        buffer if the schedule writes to output buffers, else of its data buffer. It covers every byte that
        arrived there."""

    def busbw_factor(self, n_ranks: int) -> float:
        """busbw = algbw x this. Source: nccl-tests doc/PERFORMANCE.md."""
        return 1.0

    def closed_form_s(self, fabric: Fabric, schedule: Schedule, packet: PacketFormat) -> float | None:
        """What this algorithm takes on the healthy (scaled) fabric by its own formula, headers counted; None
        if it has none. A figure of the result (`model_us`); the verdict is judged by the schedule and its
        routes where the engine measures the latency of a packet."""
        return None


@runtime_checkable
class NotesOfTraffic(Protocol):
    """What a collective or workload has besides if there is something to know of the schedules that it has
    made. Optional: the user reads these sentences before the run, and finds them in the result."""

    def notes(self, fabric: Fabric, ranks: Sequence[int]) -> Sequence[str]:
        """Sentences without a full stop, such as that a job was reduced to the GPUs there are."""
        ...


@runtime_checkable
class MadeForRouter(Protocol):
    """What a collective or workload has besides if its paths are those of a router. Optional: where the user
    chooses none, it is that one, if it serves the fabric. A mapping of its name and its options."""

    router: Mapping[str, object]


class Workload(Collective, Protocol):
    """The messages of an application, as one schedule per iteration; used in place of a collective.

    `kind` is none of nccl-tests' operations, so no physical limit is known for it. Its docstring says what
    `size_bytes` means and what `expected` compares.
    """
