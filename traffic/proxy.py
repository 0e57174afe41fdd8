"""Drives the transport process from the lab's control process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any, Self

from railweave.framework.errors import TransportError
from railweave.framework.hookspecs import Event
from railweave.framework.model import Endpoint, EntropyTable, PacketFormat, Schedule
from railweave.framework.parameters import Parameter, Value
from railweave.traffic.capture import Capture, Link
from railweave.traffic.child import Child
from railweave.traffic.rocev2.tuning import PARAMETERS


class RoceV2:
    """RDMA writes over RoCEv2, all ranks in one process. See hookspecs.Transport for the methods."""

    summary = "RDMA writes as RoCEv2 packets: windowed, reliable, one or several paths a pair"
    parameters: tuple[Parameter, ...] = PARAMETERS

    def __init__(self, options: Mapping[str, Value] | None = None) -> None:
        self._options = dict(options or {})
        self._child: Child | None = None

    def configured(self, options: Mapping[str, Value]) -> Self:
        return type(self)(options)

    def start(self, endpoints: Sequence[Endpoint], packet: PacketFormat, log_path: str) -> None:
        """Start the process. The namespaces must exist; interfaces may still be on their way. `ready` follows once
        all sockets are open, or `died` with the reason."""
        self._child = Child("railweave.traffic.process", log_path)
        self._order("open", endpoints=[asdict(e) for e in endpoints], path_mtu=packet.path_mtu, options=self._options)  # fmt: skip

    def use_entropies(self, table: EntropyTable) -> None:
        self._order("entropies", table=_plain(table))

    def begin(
        self, collective: str, options: Mapping[str, Value], schedule: Schedule, iteration: int, seed: int
    ) -> None:
        """Run one iteration on inputs made from `seed`; `started`, `progress` and `finished` or `failed` follow."""
        self._order(
            "begin", collective=collective, options=dict(options), schedule=_plain(schedule),
            iteration=iteration, seed=seed,
        )  # fmt: skip

    def capture(self, links: Sequence[Link], file: int, log_path: str) -> Capture:
        """Capture links (namespace path, interface, label) into an open file as pcapng, beside a run."""
        return Capture(links, file, log_path)

    def events(self) -> list[Event]:
        return self._running.events()

    def fileno(self) -> int:
        return self._running.channel.fileno()

    def pid(self) -> int:
        return self._running.process.pid

    def stop(self) -> None:
        """End the process and wait for it. Does nothing if there is none."""
        if self._child is not None:
            self._child.stop()
            self._child = None

    @property
    def _running(self) -> Child:
        if self._child is None:
            raise TransportError("the transport is not running. Call `start` first.")
        return self._child

    def _order(self, do: str, **data: Any) -> None:
        self._running.order({"do": do, **data})


def _plain(noun: EntropyTable | Schedule) -> dict[str, Any]:
    return {field.name: getattr(noun, field.name) for field in fields(noun)}
