"""What an engine says before anything starts: what it cannot carry out, and what a run will take."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from railweave.framework.errors import ExperimentError, RailweaveError, blaming, type_name
from railweave.framework.experiment.faults import VERBS
from railweave.framework.hookspecs import EVIDENCE, Engine, Estimate, Estimator, LinkState, hookimpl
from railweave.framework.kit.check_report import Broken, Outcome, Violation
from railweave.framework.kit.engine_trials import Trial, held
from railweave.framework.model import Fabric, PacketFormat
from railweave.framework.model.arrays import Float
from railweave.framework.registry import Registers

WITHOUT_HOSTS = ("pcap", "program")
"""What needs packets with their bytes, or hosts that send them."""
WITHOUT_PACKETS = (*WITHOUT_HOSTS, "reorder", "duplicate", "chooser", "control")
"""What needs packets, were they but computed."""


def computes_flows(engine: Engine) -> bool:
    """Whether an engine computes runs without packets, which choosers of paths would choose for."""
    return not engine.packets and "chooser" in engine.lacks


_WITH_SPARES = {"name": "rail-only", "domains": 2, "rails": 2, "spares": 1, "spare_ports": 1}


def refusals(trial: Trial) -> Outcome:
    """What `lacks` names is refused with its reason by everything that wants it; what needs packets is named
    by an engine without them."""
    engine, name, wrong = trial.engine, trial.subject.name, list[Violation]()
    for word, why in engine.lacks.items():
        if not isinstance(why, str) or not why.strip():
            wrong.append(Violation("", f"lacks[{word!r}] is {why!r}: give the reason, in words"))
            continue
        if not (wanting := _wanting(trial, word)):
            wrong.append(
                Violation("", f"lacks names {word!r}, which nothing asks for (docs/plugins.md, Engine)")
            )
        for keys in wanting:
            try:
                _check_refused(trial, keys)
            except ExperimentError as error:
                if f"engine {name}" not in str(error) or why not in str(error):
                    wrong.append(Violation("", f"{word!r} is refused without its reason {why!r}: {error}"))
            else:
                wrong.append(Violation("", f"lacks names {word!r}, and {keys} is planned all the same"))
    if not engine.packets:
        wrong += [
            Violation("", f"it has no packets, and lacks does not name {word!r}, which needs them")
            for word in (WITHOUT_PACKETS if computes_flows(engine) else WITHOUT_HOSTS)
            if word not in engine.lacks
        ]
    return Outcome.of("refusals", wrong, ", ".join(engine.lacks) or "it lacks nothing")


def _check_refused(trial: Trial, keys: Mapping[str, Any]) -> None:
    registers = Registers([*trial.registers.manager.list_name_plugin(), ("railweave plugin check", _Needy())])
    plan = trial.plan(registers, **keys)
    if not keys:
        plan.check_lab()


def _wanting(trial: Trial, word: str) -> list[dict[str, Any]]:
    """Keys of experiments that want what `lacks` calls `word`; for labs none, the plan itself is asked."""
    nothing = dict.fromkeys(("collective", "size", "iterations"))
    plain: dict[str, dict[str, Any]] = {
        "lab": {},
        "program": {"program": "true", **nothing},
        "pcap": {"pcap": [trial.link_name]},
        "trace": {"trace": "1ms"},
        "chooser": {"chooser": "random"},
        "replace": {"topology": _WITH_SPARES, "faults": ["at=iter:1 replace gpu:0.0"], "iterations": 2},
        "reconnect": {
            "topology": _WITH_SPARES,
            "faults": ["at=iter:1 reconnect link:g0.0->r0"],
            "iterations": 2,
        },
        "control": {"control": "dcqcn"},
    }
    wanting = [plain[word]] if word in plain else []
    if word in EVIDENCE:
        wanting.append({"estimator": _needing(word)})
    verb, _, rest = word.partition(" ")
    kind, _, without = rest.partition(" ")
    if verb in VERBS and verb not in plain and without in ("", "without back"):
        kinds = (kind,) if kind else VERBS[verb].objects or ("link",)
        options = "".join(f" {p.name}={p.default:.0%}" for p in VERBS[verb].parameters)
        options += " back=500ms" * (word == "kill switch")
        targets = {
            "controller": "controller",
            "switch": f"switch:{trial.switch}",
            "link": f"link:{trial.link_name}",
        }
        group = trial.sample.fabric.group(kind)
        targets |= {} if group is None else {kind: f"{kind}:{'.'.join('0' for _ in group.shape)}"}
        wanting += [
            {"faults": [f"at=iter:1 {verb} {targets[kind]}{options}"], "iterations": 2}
            for kind in kinds
            if kind in targets
        ]
    return wanting


class _Needing(Estimator):
    """An estimator that cannot do without one kind of evidence."""

    def __init__(self, evidence: str) -> None:
        self.needs, self.summary = (evidence,), f"needs {evidence}"

    def scores(self, fabric: Fabric, state: LinkState, packet: PacketFormat) -> Float:
        return np.ones(fabric.n_links)


class _Needy:
    """Registers one of each."""

    @hookimpl
    def register_estimators(self, register: Any) -> None:
        for evidence in EVIDENCE:
            register(_needing(evidence), _Needing(evidence))


def _needing(evidence: str) -> str:
    return f"needs-{evidence}"


def estimates(trial: Trial) -> Outcome:
    """`estimate` answers with an Estimate and starts nothing."""
    before, name = held(), trial.subject.name
    try:
        with blaming(f"engine {name}: estimate()"):
            plan = trial.plan()
            estimate = plan.engine.estimate(plan)
        if not isinstance(estimate, Estimate):
            raise Broken(f"estimate() returns {type_name(estimate)} instead of an Estimate")
        if left := sorted(held() - before):
            raise Broken(f"estimate() leaves {', '.join(left)}")
    except RailweaveError as error:
        return Outcome.of("estimate", [Violation.of(trial.sample.name, error)], "")
    figures = {"MB": (estimate.memory_bytes or 0) / 1e6, "s": estimate.seconds or 0}
    return Outcome("estimate", "passed", ", ".join(f"{n:.3g} {unit}" for unit, n in figures.items() if n))
