"""What an experiment wants of its engine and does not get."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from railweave.framework.experiment.faults import Fault
from railweave.framework.experiment.schema import DEFAULTS, Choice, Experiment
from railweave.framework.experiment.settings import Key
from railweave.framework.hookspecs import (
    ChoosesPaths,
    CongestionControl,
    ControlsCongestion,
    CountsPaths,
    Engine,
    Estimator,
    PathChooser,
    Transport,
)

MEASURED_BY: Mapping[str, tuple[str, ...]] = {
    "probe_s": ("probe",),
    "loss": ("auto", "queue"),
    "packets": ("auto", "queue"),
}
"""Evidence that only some values of `measure` give, where there are packets."""
ASKED_BY: Mapping[str, tuple[type, str]] = {
    "chooser": (ChoosesPaths, "takes paths in turn alone"),
    "control": (ControlsCongestion, "has its own congestion control alone (window)"),
}
"""Transports that ask a plugin of a kind, and what the others do."""


def lacked(fault: Fault, engine: Engine) -> str | None:
    """The name in `lacks` of what a fault wants of the engine; None if the engine can do it."""
    words = f"{fault.verb} {fault.kind}"
    without = () if "back" in fault.options else (f"{words} without back",)
    return next((name for name in (*without, words, fault.verb) if name in engine.lacks), None)


def chooses(request: Experiment) -> bool:
    """Whether a chooser of the user's decides over the path of every packet."""
    return bool(request.chooser != DEFAULTS["chooser"])


def controls(request: Experiment) -> bool:
    """Whether a congestion control of the user's decides how fast pairs send."""
    return bool(request.control != DEFAULTS["control"])


def why_not_asked(
    kind: str,
    request: Experiment,
    engine: Engine,
    plugin: PathChooser | CongestionControl,
    transport: Transport,
) -> str:
    """Why a chooser or congestion control cannot be used: its transport does not ask it, where the engine
    does not by itself, or it goes by marks, which are off; empty where it can."""
    choice: Choice = getattr(request, kind)
    if choice == DEFAULTS[kind]:
        return ""
    asks, otherwise = ASKED_BY[kind]
    if engine.packets and not isinstance(transport, asks):
        return f"{choice.name}: transport {request.transport.name} {otherwise}."
    off = request.engine.options.get("marks") == "off"
    return f"{choice.name} goes by marks of congestion, and engine.marks is off." * (
        off and "mark" in plugin.needs
    )


def why_not_counted(request: Experiment, engine: Engine, estimator: Estimator, transport: Transport) -> str:
    """Why an estimator cannot be used: it needs counts by path, and who sends packets gives none; empty where
    it can."""
    if "paths" not in getattr(estimator, "needs", ()) or not engine.packets:
        return ""
    name, sender = request.estimator.name, f"transport {request.transport.name}"
    if request.program or not isinstance(transport, CountsPaths):
        sender = "a program" if request.program else sender
        return f"{name} needs counts of packets by path, which {sender} does not give."
    return ""


def unusable(request: Experiment, engine: Engine, plugins: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The kinds of plugins that ask senders, or are asked by them, and cannot be used, and why. `plugins`:
    those chosen, by kind, None where the choice is wrong."""
    reasons: dict[str, Callable[..., str]] = {
        "chooser": partial(why_not_asked, "chooser"),
        "control": partial(why_not_asked, "control"),
        "estimator": why_not_counted,
    }
    for kind, why_not in reasons.items():
        plugin, transport = plugins[kind], plugins["transport"]
        if plugin and transport and (why := why_not(request, engine, plugin, transport)):
            yield kind, why


def refusals(
    request: Experiment,
    engine: Engine,
    engines: Mapping[str, Engine],
    faults: Sequence[Fault],
    needs: Sequence[str],
) -> Iterator[tuple[Key, str]]:
    """What is refused, at its key, and why. `engines`: all that there are; `needs`: evidence that the
    estimator cannot do without."""
    estimator = request.estimator.name
    wanted: list[tuple[Key, str, str]] = [
        *[(("program",), "program", "programs")] * bool(request.program),
        *[(("pcap",), "pcap", "captures")] * bool(request.pcap),
        *[(("trace",), "trace", "link loads over time")] * (request.trace != "none"),
        *[(("chooser",), "chooser", f"choosing paths by {request.chooser.name}")] * chooses(request),
        *[(("control",), "control", f"congestion control by {request.control.name}")] * controls(request),
        *((("faults",), lacked(fault, engine) or fault.verb, repr(fault.text)) for fault in faults),
        *((("estimator",), need, f"measuring {need}, which {estimator} needs") for need in needs),
    ]
    for key, word, text in wanted:
        if word in engine.lacks:
            able = [name for name, other in engines.items() if word not in other.lacks]
            others = f" Engines that do it: {', '.join(able)}." if able else " Leave it out."
            yield key, f"{text}: engine {request.engine.name} cannot, because {engine.lacks[word]}.{others}"
        elif key == ("estimator",) and engine.packets:
            sources = MEASURED_BY.get(word, (request.measure,))
            if request.measure not in sources:
                does = " or ".join(f"`measure: {source}`" for source in sources)
                yield key, f"{text}: `measure: {request.measure}` does not. {does} does."
