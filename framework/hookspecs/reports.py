"""What is written or measured besides runs: reports and benchmarks."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from railweave.framework.hookspecs.configurable import Configurable
from railweave.framework.parameters import Value


class Report(Configurable, Protocol):
    """Writes something from a finished run into its run directory."""

    @abstractmethod
    def write(self, result: Mapping[str, Any], directory: str) -> None:
        """`result` is the documented JSON result, as in `directory`/result.json. Called once per run, by the
        process that called `run`; an exception becomes a note."""


class Benchmark(Configurable, Protocol):
    """Measures this machine (`railweave bench NAME`); each parameter is an option of that command.

    `in_lab`: whether `run` is called in the first process of a lab without a fabric: as root of private
    network, mount and process namespaces, with an empty /run, where it may make interfaces and start daemons;
    all of it ends when `run` returns. Else it is called in the command's own process.
    """

    in_lab: bool = False

    @abstractmethod
    def run(self, options: Mapping[str, Value], progress: Callable[[str], None]) -> Mapping[str, Any]:
        """Measure, and return the figures: numbers, words, and lists and mappings of them, by name.

        `options` are parsed and complete. `progress` shows the user a line; every two seconds is often
        enough. Raises MachineError for what this machine lacks.
        """
