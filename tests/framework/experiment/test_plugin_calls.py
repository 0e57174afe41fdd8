"""Every mistake that can be known before a run is refused then, with the plugin, its file and line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.typing import NDArray

from railweave.framework.cli import main
from railweave.framework.errors import ExperimentError, PluginError
from railweave.framework.experiment.plan import load_plan
from railweave.framework.hookspecs import Collective, Estimator, LinkState, Report, Topology, hookimpl
from railweave.framework.kit.plugin_check import check_plugin
from railweave.framework.model import Fabric, PacketFormat, Schedule
from railweave.framework.parameters import Parameter, Value
from railweave.framework.registry import Registers
from railweave.framework.runs.observers import write_reports
from railweave.plugins.fluid import plugin as fluid


class Swap(Collective):
    """Neighbours exchange their data; every mistake below changes one thing of it."""

    summary = "neighbours exchange"
    kind = "swap"

    def schedule(
        self, fabric: Fabric, ranks: Sequence[int], size_bytes: int, dtype: str, redop: str
    ) -> Schedule:
        n = len(ranks)
        src, zero = np.arange(n), np.zeros(n, np.int64)
        return Schedule(
            "swap", n, size_bytes, dtype, redop, size_bytes, src, src ^ 1, zero, zero,
            np.full(n, size_bytes), zero, zero, np.zeros(n + 1, np.int64), np.zeros(0, np.int64),
            dst_buffer=np.ones(n, np.int64),
        )  # fmt: skip

    def inputs(self, schedule: Schedule, seed: int) -> list[NDArray[Any]]:
        return [np.full(schedule.buffer_bytes // 4, rank, np.float32) for rank in range(schedule.n_ranks)]

    def expected(self, schedule: Schedule, inputs: Sequence[NDArray[Any]], rank: int) -> NDArray[Any]:
        return inputs[rank ^ 1]


class Raises(Swap):
    """`method` raises."""

    def __init__(self, method: str) -> None:
        setattr(self, method, self._fail)

    def _fail(self, *_: object) -> Any:
        raise KeyError("oops")


class NoSchedule(Swap):
    def schedule(self, *_: object) -> Any:
        return None


class OtherRanks(Swap):
    def schedule(self, fabric: Fabric, ranks: Sequence[int], *rest: Any) -> Schedule:
        return super().schedule(fabric, ranks[:4], *rest)


class ShortInputs(Swap):
    def inputs(self, schedule: Schedule, seed: int) -> list[NDArray[Any]]:
        return [array[:3] for array in super().inputs(schedule, seed)]


class FewInputs(Swap):
    def inputs(self, schedule: Schedule, seed: int) -> list[NDArray[Any]]:
        return super().inputs(schedule, seed)[:3]


class WideInputs(Swap):
    def inputs(self, schedule: Schedule, seed: int) -> list[NDArray[Any]]:
        return [array.astype(np.float64) for array in super().inputs(schedule, seed)]


class NothingExpected(Swap):
    def expected(self, *arguments: Any) -> NDArray[Any]:
        return super().expected(*arguments)[:0]


class OneShort(Swap):
    def expected(self, *arguments: Any) -> NDArray[Any]:
        return super().expected(*arguments)[:-1]


class NoFactor(Swap):
    def busbw_factor(self, n_ranks: int) -> float:
        return float("nan")


class TextForm(Swap):
    def closed_form_s(self, fabric: Fabric, schedule: Schedule, packet: PacketFormat) -> Any:
        return "1 s"


class NotMade(Swap):
    def configured(self, options: Mapping[str, Value]) -> Any:
        return None


COLLECTIVES: dict[str, tuple[Any, str]] = {
    "schedule raises": (Raises("schedule"), "collective bad: schedule fails with KeyError: 'oops' ("),
    "inputs raises": (Raises("inputs"), "collective bad: inputs fails with KeyError: 'oops' ("),
    "expected raises": (
        Raises("expected"),
        "collective bad: expected of rank 0 fails with KeyError: 'oops' (",
    ),
    "factor raises": (Raises("busbw_factor"), "collective bad: busbw_factor fails with KeyError: 'oops' ("),
    "form raises": (Raises("closed_form_s"), "collective bad: closed_form_s fails with KeyError: 'oops' ("),
    "no schedule": (NoSchedule(), "returns nothing, not a Schedule"),
    "other ranks": (OtherRanks(), "returns a schedule of 4 ranks, float32, sum; asked for 16"),
    "short inputs": (ShortInputs(), "returns 3 elements (12 bytes) for rank 0, which sends or combines 4096"),
    "few inputs": (FewInputs(), "returns 3 arrays, not a list of 16 arrays"),
    "wide inputs": (WideInputs(), "returns an array of float64 for rank 0, not an array of float32"),
    "nothing expected": (NothingExpected(), "returns 0 elements (0 bytes) for rank 0, which receives 4096"),
    "one short": (OneShort(), "returns 1023 elements (4092 bytes) for rank 0, which receives 4096 bytes"),
    "no factor": (NoFactor(), "busbw_factor() at "),
    "text form": (TextForm(), "returns '1 s', not a number of 0 or more"),
    "not made": (NotMade(), "collective bad: configured() at "),
}


class Plugin:
    def __init__(self, **objects: Any) -> None:
        self._objects = objects

    def _register(self, kind: str, register: Callable[[str, Any], None]) -> None:
        if kind in self._objects:
            register("bad", self._objects[kind])

    @hookimpl
    def register_collectives(self, register: Callable[[str, Any], None]) -> None:
        self._register("collective", register)

    @hookimpl
    def register_estimators(self, register: Callable[[str, Any], None]) -> None:
        self._register("estimator", register)

    @hookimpl
    def register_topologies(self, register: Callable[[str, Any], None]) -> None:
        self._register("topology", register)

    @hookimpl
    def register_reports(self, register: Callable[[str, Any], None]) -> None:
        self._register("report", register)


def refused(registers: Registers, keys: dict[str, object], **objects: Any) -> str:
    known = Registers([*registers.manager.list_name_plugin(), ("strange", Plugin(**objects))])
    with pytest.raises(ExperimentError) as refusal:
        load_plan(None, {"size": 4096, "faults": "none", **keys}, known)
    return str(refusal.value)


@pytest.mark.parametrize("name", COLLECTIVES)
def test_a_collectives_mistake_is_refused_before_a_run(name: str, registers: Registers) -> None:
    collective, words = COLLECTIVES[name]
    message = refused(registers, {"collective": "bad"}, collective=collective)
    assert words in message and __file__ in message


def test_the_sound_one_is_planned(registers: Registers) -> None:
    known = Registers([*registers.manager.list_name_plugin(), ("strange", Plugin(collective=Swap()))])
    assert load_plan(None, {"collective": "bad", "faults": "none"}, known).schedule.n_transfers == 16


class Scores(Estimator):
    summary = "answers what it is told"

    def __init__(self, answer: Callable[[int], Any]) -> None:
        self._answer = answer

    def scores(self, fabric: Fabric, state: LinkState, packet: PacketFormat) -> Any:
        return self._answer(fabric.n_links)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda n: np.full(n, 7.0), "returns 7.0 for link g0.0->d0: a score lies in 0..1"),
        (lambda n: np.full(n, np.nan), "returns nan for link g0.0->d0"),
        (lambda n: np.full(n, -0.5), "returns -0.5 for link g0.0->d0"),
        (lambda n: np.ones(n) + 1j, "returns (1+1j) for link g0.0->d0"),
        (lambda n: np.ones(3), "returns shape (3,), not (64,)"),
        (lambda n: 1 / 0, "fails with ZeroDivisionError: division by zero"),
        (lambda n: sys.exit(3), "fails with SystemExit: 3"),
    ],
)
def test_an_estimators_mistake_is_refused_before_a_run(
    answer: Callable[[int], Any], words: str, registers: Registers
) -> None:
    message = refused(registers, {"estimator": "bad"}, estimator=Scores(answer))
    assert "estimator bad: scores()" in message and words in message and __file__ in message


class Timed(Estimator):
    """Scores by the delay of probes, which only timed trains show."""

    summary = "the delay of probes"

    def __init__(self, needs: Any = ("probe_s",), *, blind: bool = False) -> None:
        self.needs, self._blind = needs, blind

    def scores(self, fabric: Fabric, state: LinkState, packet: PacketFormat) -> Any:
        delay_s = np.where(np.isnan(state.probe_s) | self._blind, 0.0, state.probe_s)
        return np.where(state.up, 1 / (1 + delay_s), 0.0)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"engine": "fluid"}, "measuring probe_s, which bad needs: engine fluid cannot, because"),
        ({}, "which bad needs: `measure: auto` does not. `measure: probe` does."),
        ({"measure": "counters"}, "which bad needs: `measure: counters` does not"),
    ],
)
def test_an_estimator_that_gets_no_evidence_is_refused_by_name(
    keys: dict[str, object], words: str, registers: Registers
) -> None:
    known = Registers([*registers.manager.list_name_plugin(), ("fluid", fluid)])
    assert words in refused(known, {"estimator": "bad", **keys}, estimator=Timed())


def test_what_an_estimator_needs_is_evidence_that_there_is_and_matters(registers: Registers) -> None:
    message = refused(registers, {"estimator": "bad"}, estimator=Timed(("delay",)))
    assert "needs = ('delay',)" in message and "a tuple of queue_bytes, loss, service_bps, probe_s" in message
    checked = []
    for estimator in (Timed(), Timed(blind=True)):
        known = Registers([*registers.manager.list_name_plugin(), ("strange", Plugin(estimator=estimator))])
        load_plan(None, {"estimator": "bad", "measure": "probe", "faults": "none"}, known)
        checked.append(check_plugin("estimator", "bad", known, fabrics=("rail-only",)))
    assert [(one.check, one.detail) for one in checked[0].outcomes if one.check == "needs"] == [
        ("needs", "probe_s")
    ]
    assert not checked[1].passed and "the same whatever probe_s is" in checked[1].text()


class NoFabric(Topology):
    summary = "builds nothing"

    def build(self, params: Mapping[str, Value]) -> Any:
        return None


class FailingReport(Report):
    summary = "fails"
    parameters = (Parameter("speed", 1, "count", "how fast", minimum=1),)

    def write(self, result: Mapping[str, Any], directory: str) -> None:
        raise RuntimeError("no ink")


def test_a_topology_that_builds_nothing_is_refused(registers: Registers) -> None:
    message = refused(registers, {"topology": "bad"}, topology=NoFabric())
    assert f"topology bad: build() at {__file__}" in message and "not a Fabric" in message


def test_options_of_reports_are_checked_before_a_run(registers: Registers) -> None:
    assert "speed: '0' is too small" in refused(registers, {"reports.bad.speed": "0"}, report=FailingReport())
    unknown = refused(registers, {"reports.bda.speed": "1"}, report=FailingReport())
    assert "there is no report 'bda'" in unknown and "Did you mean bad?" in unknown


def test_a_failing_report_becomes_a_note_with_its_place() -> None:
    notes: list[str] = []
    write_reports({"bad": FailingReport()}, {}, "/nowhere", notes.append)
    assert len(notes) == 1 and notes[0].startswith(f"report bad fails with RuntimeError: no ink ({__file__}")


def test_a_unit_that_does_not_exist_is_refused_where_it_is_declared() -> None:
    with pytest.raises(PluginError, match="parameter 'x' has the unit 'metres'; the units are: count, bytes"):
        Parameter("x", 1, "metres", "")  # type: ignore[arg-type]
    with pytest.raises(PluginError, match="the default of parameter x: 5 is too large"):
        Parameter("x", 5, "count", "", maximum=4)


def test_verbose_shows_the_plugins_own_stack(registers: Registers) -> None:
    plugin = Plugin(collective=Raises("schedule"))
    known = Registers([*registers.manager.list_name_plugin(), ("strange", plugin)])
    words = ["run", "--collective", "bad", "--fault", "none"]
    done = CliRunner().invoke(main, [*words, "-v"], obj=known)
    assert done.exit_code == 2 and 'raise KeyError("oops")' in done.output and "in _fail" in done.output
    quiet = CliRunner().invoke(main, words, obj=known)
    assert quiet.exit_code == 2 and "Traceback" not in quiet.output and __file__ in quiet.output
