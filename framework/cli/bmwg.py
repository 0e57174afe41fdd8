"""`railweave bmwg`: procedures of the IETF's BMWG drafts on AI fabrics, as far as they can be run here."""

from dataclasses import asdict

import click

from railweave.framework.api.studies import bmwg as run_procedures
from railweave.framework.api.studies import bmwg_procedures
from railweave.framework.cli._context import example, json_command, print_json, print_text, registers, table
from railweave.framework.cli._options import LEADING, ExperimentCommand, overrides_of
from railweave.framework.cli._signals import raised_signals
from railweave.framework.cli._study import study_directory
from railweave.framework.experiment.plan import load_plan


@click.command(
    cls=ExperimentCommand,
    leading=LEADING[1:],
    keys=("topology", "router", "engine", "size", "seed"),
    kinds=("topology", "engine"),
    epilog=example(
        "railweave bmwg --quick",
        "railweave bmwg --engine {engine} --rails 8 --json",
        "railweave bmwg --router hscore,spray --quick",
    ),
)
@click.option("--quick", is_flag=True, help="Few iterations: shows that all runs, and has no percentiles.")
@json_command
def bmwg(ctx: click.Context, /, quick: bool, as_json: bool, **_: object) -> None:
    """Run what can be run of the procedures of IETF draft-calabria-bmwg-ai-fabric-training-bench (JCT ratio,
    BusBW percentiles, link failure, failover, incast, interference) on a fabric, with one router or several
    (NAME,NAME), and say of the others why they are not emulated. The figures are those of an emulation or a
    model, not of a test of equipment."""
    values, labels = overrides_of(ctx)
    names = str(values.pop("router", "")).split(",")
    routers = [word for name in names if (word := name.strip())]
    first = {"router": routers[0]} if routers else {}
    plan = load_plan(None, {**values, **first, "faults": ["none"]}, registers(ctx), labels)
    chosen, left_out = bmwg_procedures(
        plan, routers or [plan.experiment.router.name], registers(ctx), quick=quick
    )
    with raised_signals(), study_directory("bmwg") as directory:
        outcomes = run_procedures(
            plan, chosen, directory, registers(ctx),
            lambda point: click.echo(point.settings["procedure"], err=True),
        )  # fmt: skip
    if as_json:
        from railweave.framework.api.studies import DRAFT

        rows = [asdict(outcome) for outcome in outcomes]
        engine = plan.experiment.engine.name
        print_json("bmwg", draft=DRAFT, engine=engine, quick=quick, procedures=rows, not_emulated=left_out)
        return
    cells = [(o.section, o.name, o.verdict or "failed", o.error or _words(o.figures)) for o in outcomes]
    print_text(table(("section", "procedure", "fidelity", "figures"), cells))
    print_text("\ntimes declared; not known: -")
    for name, why in left_out.items():
        print_text(f"not emulated: {name}: {why}")


def _words(figures: dict[str, float | int | bool | None]) -> str:
    return ", ".join(f"{name} {_cell(value)}" for name, value in figures.items())


def _cell(value: float | bool | None) -> str:
    if value is None:
        return "-"
    return ("yes" if value else "no") if isinstance(value, bool) else f"{value:.4g}"
