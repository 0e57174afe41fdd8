"""All checks of one plugin, in order."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from railweave.framework.errors import PluginError, did_you_mean
from railweave.framework.kit import checks, other_kinds
from railweave.framework.kit.report import CheckReport, Outcome, Violation
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
) -> CheckReport:
    """What a registered object of a kind does right and wrong; `observer` checks the hooks of the plugin
    `name`.

    `registers`: everything installed by default. `options`: as a user writes them. Routers: `scale` asks for
    1,024 GPUs too, and `lab` then runs it on the real lab, half a minute per kind of fabric. `run`: the
    directory of a finished run, from which a report writes into another directory. `fabrics`: those to check
    on, as `NAME` or `file:FILE`, in place of the examples.

    Raises PluginError for a name that is not registered, ExperimentError for options it does not take.
    """
    registers = load_plugins() if registers is None else registers
    if kind == "observer":
        return CheckReport(kind, name, (), other_kinds.observer(name, registers))
    subject = Subject(kind, name, registers[kind][name], options or {})
    try:
        subject.made()
    except PluginError as error:
        return CheckReport(kind, name, (), (Outcome.of("configured", [Violation.of("", error)], ""),))
    samples, unbuilt = examples(registers)
    if fabrics:
        samples, unbuilt = [on(registers, fabric) for fabric in fabrics], []
    outcomes = [Outcome("configured", "passed", "every member of its Protocol is there")]
    match kind:
        case "router":
            return _router(subject, samples, unbuilt, scale=scale, lab=lab, chosen=bool(fabrics))
        case "topology":
            outcomes += other_kinds.topology(subject, registers, samples, unbuilt)
        case "collective" | "workload":
            outcomes += other_kinds.collective(subject, samples)
        case "estimator":
            outcomes += other_kinds.estimator(subject, samples)
        case "report":
            outcomes += other_kinds.report(subject, run)
    return CheckReport(kind, name, tuple(s.name for s in samples if s.small), tuple(outcomes))


def kind_of(name: str, registers: Registers) -> str:
    """The kind of what is registered as `name`, or `observer` for a plugin that has hooks alone.

    Raises PluginError for an unknown name, or one that several kinds have.
    """
    kinds = [register.kind for register in registers if name in register]
    if len(kinds) > 1:
        raise PluginError(f"{name!r} is a {' and a '.join(kinds)}. Choose with --kind.")
    if kinds or other_kinds.observing(name, registers):
        return kinds[0] if kinds else "observer"
    known = {n for register in registers for n in register}
    raise PluginError(
        f"there is nothing called {name!r}: no {', no '.join(PROTOCOLS)}, no observer."
        f"{did_you_mean(name, known)} See `railweave plugins`; a package must be installed first."
    )


def _router(
    subject: Subject,
    samples: list[Sample],
    unbuilt: list[Violation],
    *,
    scale: bool,
    lab: bool,
    chosen: bool,
) -> CheckReport:
    served = [s for s in samples if not why_unserved(subject.registered, s.fabric)]
    small = [s for s in served if s.small]
    built = {s.fabric.kind for s in samples if s.small}
    unbuilt += [
        Violation(
            "",
            f"serves names {kind}: no installed topology builds a small one (see `examples` in "
            f"docs/plugins.md); there are {', '.join(sorted(built))}",
        )
        for kind in subject.registered.serves
        if kind != "*" and kind not in built and not chosen
    ]
    outcomes = [Outcome.of("has fabrics", unbuilt, "")] if unbuilt else []
    outcomes += [checks.pure(subject, small), checks.refuses_others(subject, samples)]
    reached, good = checks.every_pair_reached(subject, small)
    outcomes += [reached, *(rule.outcome(subject, good) for rule in checks.RULES)]
    if scale:
        kinds = {s.fabric.kind for s in good}
        outcomes.append(at_1024_gpus(subject, [s for s in served if not s.small and s.fabric.kind in kinds]))
    if lab and any(o.status == "failed" for o in outcomes):
        outcomes.append(Outcome("on the lab", "skipped", "fix the rest first"))
    elif lab:
        outcomes.append(on_the_lab(subject, good))
    return CheckReport("router", subject.name, tuple(s.name for s in small), tuple(outcomes))
