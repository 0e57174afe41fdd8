"""All checks of one router, in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from railweave.framework.errors import RailweaveError
from railweave.framework.kit.checks import (
    deadlock_free,
    deterministic,
    equal_split,
    every_pair_reached,
    pure,
)
from railweave.framework.kit.contract import refuses_others, says_what_it_is
from railweave.framework.kit.damage import single_failures
from railweave.framework.kit.labrun import on_the_lab
from railweave.framework.kit.report import Finding, Outcome, Report
from railweave.framework.kit.samples import Sample, large, serves, small
from railweave.framework.kit.scale import at_1024_gpus
from railweave.framework.kit.subject import Subject
from railweave.framework.registry import Registers, load

Check = Callable[[Subject, list[Sample]], Outcome]

CHECKS: Mapping[str, Check] = {
    "equal in, equal out": deterministic,
    "equal split": equal_split,
    "single failures": single_failures,
    "no deadlock": deadlock_free,
}
"""What a router is asked on the fabrics where its first answers were sound."""


def check_router(
    name: str,
    registers: Registers | None = None,
    *,
    options: Mapping[str, object] | None = None,
    scale: bool = True,
    lab: bool = False,
) -> Report:
    """What a registered router does right and wrong, on fabrics of every kind it serves.

    `registers`: everything installed by default. `options`: of the router, as a user writes them. `scale`: ask
    for 1,024 GPUs too. `lab`: then run it on the real lab, which takes half a minute per kind.

    Raises PluginError for a name that is not registered, ExperimentError for options it does not take.
    """
    registers = load() if registers is None else registers
    subject = Subject.of(name, registers, options or {})
    says = says_what_it_is(subject)
    if says.status == "failed":
        return Report(name, (), (says,))
    samples, unbuilt = small(registers)
    served = [s for s in samples if serves(subject.registered, s.fabric.kind)]
    built = {s.fabric.kind for s in samples}
    unbuilt += [
        Finding(
            "",
            f"serves names {kind}: no installed topology builds a small one (see `examples` in docs/plugins.md); "
            f"there are {', '.join(sorted(built))}",
        )
        for kind in subject.registered.serves
        if kind != "*" and kind not in built
    ]
    outcomes = [says]
    if unbuilt:
        outcomes.append(Outcome("has fabrics", "failed", "", tuple(unbuilt)))
    outcomes.append(pure(subject, served))
    outcomes.append(refuses_others(subject, samples))
    reached, good = every_pair_reached(subject, served)
    outcomes.append(reached)
    outcomes += [_guarded(label, check, subject, good) for label, check in CHECKS.items()]
    kinds = {s.fabric.kind for s in good}
    if scale:
        outcomes.append(at_1024_gpus(subject, large(registers, kinds)))
    if lab and all(o.status != "failed" for o in outcomes):
        outcomes.append(on_the_lab(subject, sorted(kinds)))
    elif lab:
        outcomes.append(Outcome("on the lab", "skipped", "mend the rest first"))
    return Report(name, tuple(s.name for s in served), tuple(outcomes))


def _guarded(label: str, check: Check, subject: Subject, samples: list[Sample]) -> Outcome:
    """The outcome; a router that answered before and fails now is a finding, too."""
    if not samples:
        return Outcome(label, "skipped", "no fabric that it routes")
    try:
        return check(subject, samples)
    except RailweaveError as error:
        return Outcome.of(label, [Finding("", str(error))], "")
