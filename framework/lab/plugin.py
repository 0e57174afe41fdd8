"""Offers the engine `emulation`: Mininet on Open vSwitch, in private namespaces."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from railweave.framework import errors
from railweave.framework.errors import LabError, RailweaveError
from railweave.framework.hookspecs import Configurable, Engine, hookimpl
from railweave.framework.lab.datapath import DATAPATHS
from railweave.framework.lab.sandbox import Sandbox
from railweave.framework.parameters import Parameter


class EmulationEngine(Configurable):
    """Starts a lab for a run, hears it to its end and takes it down."""

    summary = "Mininet on Open vSwitch in private namespaces; real packets"
    parameters: tuple[Parameter, ...] = (
        Parameter(
            "datapath",
            "auto",
            "text",
            "what switches: Open vSwitch in the kernel or as a process",
            choices=DATAPATHS,
        ),
    )

    def run(
        self, document: Mapping[str, object], tell: Callable[[dict[str, Any]], None], pcap: int | None = None
    ) -> Mapping[str, Any]:
        files = () if pcap is None else (pcap,)
        with Sandbox("run", {"document": dict(document), "pcap": pcap}, files=files) as lab:
            for message in lab.messages():
                match message["kind"]:
                    case "result":
                        findings: dict[str, Any] = message["findings"]
                        return findings
                    case "error":
                        raise as_error(message)
                    case _:
                        tell(message)
        raise LabError("the lab ended without a result.")


def as_error(message: Mapping[str, Any]) -> RailweaveError:
    """The error that the lab's first process ended with, of its own class."""
    kind = getattr(errors, str(message["type"]), LabError)
    return kind(message["message"]) if issubclass(kind, RailweaveError) else LabError(message["message"])


@hookimpl
def register_engines(register: Callable[[str, Engine], None]) -> None:
    register("emulation", EmulationEngine())
