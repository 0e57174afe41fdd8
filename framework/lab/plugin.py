"""Offers the engine `emulation`: Mininet on Open vSwitch, in private namespaces."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
        return in_lab("run", {"document": dict(document), "pcap": pcap}, tell, files)


def in_lab(
    task: str, message: Mapping[str, Any], tell: Callable[[dict[str, Any]], None], files: Sequence[int] = ()
) -> Mapping[str, Any]:
    """Carry out a task in a lab of its own and give its findings; `tell` gets what it says meanwhile.

    Raises what the task raised; the lab is gone by then.
    """
    with Sandbox(task, message, files=files) as lab:
        for said in lab.messages():
            match said["kind"]:
                case "result":
                    findings: dict[str, Any] = said["findings"]
                    return findings
                case "error":
                    raise as_error(said)
                case _:
                    tell(said)
    raise LabError("the lab ended without a result.")


def as_error(message: Mapping[str, Any]) -> RailweaveError:
    """The error that the lab's first process ended with, of its own class."""
    kind = getattr(errors, str(message["type"]), LabError)
    return kind(message["message"]) if issubclass(kind, RailweaveError) else LabError(message["message"])


@hookimpl
def register_engines(register: Callable[[str, Engine], None]) -> None:
    register("emulation", EmulationEngine())
