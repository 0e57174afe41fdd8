"""Drives the transport process from the lab's control process."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

from railweave.framework.errors import TransportError
from railweave.framework.model import Endpoint, EntropyTable, Fabric, PacketFormat, PathBatch, Schedule
from railweave.framework.model.arrays import Float
from railweave.framework.model.events import TransportEvent
from railweave.framework.model.senders import Senders
from railweave.framework.parameters import Parameter, Value
from railweave.framework.processes.child import ChildProcess
from railweave.traffic.capture import CaptureProcess, Link
from railweave.traffic.child import ENVIRONMENT
from railweave.traffic.choosers import IN_TURN
from railweave.traffic.controls.window import WINDOW
from railweave.traffic.rocev2 import stated
from railweave.traffic.rocev2.tuning import PARAMETERS, Tuning


class RoceV2:
    """RDMA writes over RoCEv2, all ranks in one process. See hookspecs.Transport for the methods."""

    summary = "RDMA writes as RoCEv2 packets: windowed, reliable, one or several paths per pair"
    parameters: tuple[Parameter, ...] = PARAMETERS

    def __init__(self, options: Mapping[str, Value] | None = None) -> None:
        self._options = dict(options or {})
        self._chooser: tuple[str, Mapping[str, Value], int] = (IN_TURN, {}, 0)
        self._control: tuple[str, Mapping[str, Value]] = (WINDOW, {})
        self._by_path = False
        self._child: ChildProcess | None = None

    def configured(self, options: Mapping[str, Value]) -> Self:
        return type(self)(options)

    def senders(
        self, fabric: Fabric, paths: PathBatch, packet: PacketFormat, window_bits: Float | None = None
    ) -> Senders:
        """The windows and waits of the pairs of `paths`, as its senders compute them."""
        tuning: Any = self._options
        return stated.senders(Tuning(**tuning), fabric, paths, packet, window_bits)

    def use_chooser(self, name: str, options: Mapping[str, Value], seed: int) -> None:
        """Paths are chosen so by processes that are started from now on."""
        self._chooser = name, dict(options), seed

    def use_control(self, name: str, options: Mapping[str, Value]) -> None:
        """Pairs send so in processes that are started from now on."""
        self._control = name, dict(options)

    def count_paths(self) -> None:
        """Processes that are started from now on report PathsCounted."""
        self._by_path = True

    def start(
        self, endpoints: Sequence[Endpoint], packet: PacketFormat, log_path: str, job: int = 0, jobs: int = 1
    ) -> None:
        """Start the process. The namespaces must exist; interfaces may appear later. ProcessReady follows
        once all sockets are open, or ProcessDied with the reason."""
        self._child = ChildProcess(
            "the transport", "railweave.traffic.service", log_path=log_path, environment=ENVIRONMENT
        )
        self._order(
            "open", endpoints=list(endpoints), packet=packet, options=self._options, job=job, jobs=jobs,
            chooser=self._chooser, control=self._control, by_path=self._by_path,
        )  # fmt: skip

    def use_entropies(self, table: EntropyTable) -> None:
        self._order("entropies", table=table)

    def retry(self) -> None:
        self._order("retry")

    def begin(
        self, collective: str, options: Mapping[str, Value], schedule: Schedule, iteration: int, seed: int
    ) -> None:
        """Run one iteration on inputs made from `seed`; IterationStarted, Progress and IterationFinished or
        IterationFailed follow."""
        self._order(
            "begin",
            collective=collective,
            options=dict(options),
            schedule=schedule,
            iteration=iteration,
            seed=seed,
        )

    def capture(self, links: Sequence[Link], file: int, log_path: str) -> CaptureProcess:
        """Capture links (namespace path, interface, label) into the open descriptor `file` as pcapng. Returns
        once every link is captured, so that no packet sent after this is missed; TransportError if that
        fails."""
        return CaptureProcess(links, file, log_path)

    def events(self) -> list[TransportEvent]:
        return self._running.events()

    def fileno(self) -> int:
        return self._running.channel.fileno()

    def pid(self) -> int:
        return self._running.pid

    def stop(self) -> None:
        """End the process and wait for it. Does nothing if there is none."""
        if self._child is not None:
            self._child.stop()
            self._child = None

    @property
    def _running(self) -> ChildProcess:
        if self._child is None:
            raise TransportError("the transport is not running. Call `start` first.")
        return self._child

    def _order(self, do: str, **data: Any) -> None:
        self._running.send({"do": do, **data})
