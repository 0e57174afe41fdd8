"""All checks of one plugin, in order."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

from railweave.framework.errors import PluginError, did_you_mean
from railweave.framework.kit import choosers, congestion_controls, engines, other_kinds, router_checks
from railweave.framework.kit.check_report import CheckReport, Outcome, Violation
from railweave.framework.kit.subject import Sample, Subject, examples, on
from railweave.framework.kit.trials import at_1024_gpus, on_the_lab
from railweave.framework.model.capabilities import why_unserved
from railweave.framework.registry import PROTOCOLS, Registers, load_plugins


def check_plugin(
    kind: str,
    name: str,
    registers: Registers | None = None,
    *,
    options: Mapping[str, object] | None = None,
    scale: bool = True,
    lab: bool = False,
    run: Path | None = None,
    fabrics: Sequence[str] = (),
    told: Callable[[Outcome], None] = lambda outcome: None,
    progress: Callable[[str], None] = lambda text: None,
) -> CheckReport:
    """What a registered object of a kind does right and wrong; `observer` checks the hooks of the plugin
    `name`.

    `registers`: everything installed by default. `options`: as a user writes them. Routers: `scale` asks for
    1,024 GPUs too, and `lab` then runs it on the real lab, half a minute per kind of fabric; engines that
    bring up labs are run only with `lab`. `run`: the
    directory of a finished run, from which a report writes into another directory. `fabrics`: those to check
    on, as `NAME` or `file:FILE`, in place of the examples. `told` is called after every check, `progress`
    with what is being checked.

    Raises PluginError for a name that is not registered, ExperimentError for options it does not take.
    """
    registers = load_plugins() if registers is None else registers

    def report(samples: Sequence[Sample], outcomes: Iterable[Outcome]) -> CheckReport:
        done = list[Outcome]()
        for outcome in outcomes:
            done.append(outcome)
            told(outcome)
        return CheckReport(kind, name, tuple(sample.name for sample in samples if sample.small), tuple(done))

    if kind == "observer":
        return report((), other_kinds.observer(name, registers))
    subject = Subject(kind, name, registers[kind][name], options or {})
    try:
        subject.made()
    except PluginError as error:
        return report((), [Outcome.of("configured", [Violation.of("", error)], "")])
    samples, unbuilt = ([on(registers, fabric) for fabric in fabrics], []) if fabrics else examples(registers)
    if kind == "router":
        served = [s for s in samples if not why_unserved(subject.registered, s.fabric)]
        unbuilt += [] if fabrics else _never_built(subject, samples)
        return report(served, _router(subject, samples, served, unbuilt, progress, scale=scale, lab=lab))
    configured = [Outcome("configured", "passed", "every member of its Protocol is there")]
    return report(samples, chain(configured, _others(subject, registers, samples, unbuilt, lab=lab, run=run)))


def _others(
    subject: Subject,
    registers: Registers,
    samples: list[Sample],
    unbuilt: list[Violation],
    *,
    lab: bool,
    run: Path | None,
) -> Iterable[Outcome]:
    """The checks of all kinds but routers and observers."""
    checks: dict[str, Callable[[], Iterable[Outcome]]] = {
        "topology": lambda: other_kinds.topology(subject, registers, samples, unbuilt),
        "collective": lambda: other_kinds.collective(subject, samples),
        "workload": lambda: other_kinds.collective(subject, samples),
        "estimator": lambda: other_kinds.estimator(subject, samples),
        "chooser": lambda: choosers.chooser(subject),
        "congestion-control": lambda: congestion_controls.control(subject),
        "report": lambda: other_kinds.report(subject, run),
        "engine": lambda: engines.engine(subject, registers, samples, lab=lab),
    }
    return checks[subject.kind]() if subject.kind in checks else ()


def kind_of(name: str, registers: Registers) -> str:
    """The kind of what is registered as `name`, or `observer` for a plugin that has hooks alone.

    Raises PluginError for an unknown name, or one that several kinds have.
    """
    kinds = [register.kind for register in registers if name in register]
    if len(kinds) > 1:
        raise PluginError(f"{name!r} names several: {', '.join(kinds)}. Choose with --kind.")
    if kinds or other_kinds.observing(name, registers):
        return kinds[0] if kinds else "observer"
    names = {n for register in registers for n in register}
    raise PluginError(
        f"there is nothing called {name!r}: no {', no '.join(PROTOCOLS)}, no observer."
        f"{did_you_mean(name, names)} See `railweave plugins`; a package must be installed first."
    )


def _never_built(subject: Subject, samples: Sequence[Sample]) -> list[Violation]:
    built = {s.fabric.kind for s in samples if s.small}
    return [
        Violation(
            "",
            f"serves names {kind}: no installed topology builds a small one (see `examples` in "
            f"docs/plugins.md); there are {', '.join(sorted(built))}",
        )
        for kind in subject.registered.serves
        if kind != "*" and kind not in built
    ]


def _router(
    subject: Subject,
    samples: list[Sample],
    served: list[Sample],
    unbuilt: list[Violation],
    progress: Callable[[str], None],
    *,
    scale: bool,
    lab: bool,
) -> Iterator[Outcome]:
    small, done = [s for s in served if s.small], list[Outcome]()

    def outcomes() -> Iterator[Outcome]:
        if unbuilt:
            yield Outcome.of("has fabrics", unbuilt, "")
        progress("changes nothing")
        yield router_checks.pure(subject, small)
        yield router_checks.refuses_others(subject, samples)
        progress("every pair reached")
        reached, good = router_checks.every_pair_reached(subject, small)
        yield reached
        for rule in router_checks.RULES:
            yield rule.outcome(subject, good, progress)
        if scale:
            kinds = {s.fabric.kind for s in good}
            large = [s for s in served if not s.small and s.fabric.kind in kinds]
            yield at_1024_gpus(subject, large, progress)
        if lab and any(outcome.status == "failed" for outcome in done):
            yield Outcome("on the lab", "skipped", "fix the rest first")
        elif lab:
            progress("on the lab")
            yield on_the_lab(subject, good)

    for outcome in outcomes():
        done.append(outcome)
        yield outcome
