"""The options of `run` and `shell`: every key of the experiment file, and every option of every topology."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from railweave.framework.cli.context import registers

if TYPE_CHECKING:
    from railweave.framework.experiment import Plan

_CACHE = "railweave.plugin-options"
_OFFERED = {"topology": "topologies", "workload": "workloads", "engine": "engines"}
"""Kinds of plugins whose parameters are options of the command, and what the help calls them."""


@dataclass(frozen=True, slots=True)
class Spec:
    """An option that sets one key of the experiment. `default` is for the help alone."""

    key: str
    metavar: str
    help: str
    default: str = ""
    multiple: bool = False

    @property
    def flag(self) -> str:
        return "--" + ("fault" if self.key == "faults" else self.key.replace("_", "-"))


SPECS = (
    Spec("topology", "NAME", "Fabric to bring up; see `railweave topo list`.", "rail-only"),
    Spec("router", "NAME", "What decides the paths; see `railweave routers`.", "hscore"),
    Spec("collective", "NAME", "What the GPUs do; see `railweave plugins`.", "all-reduce"),
    Spec("workload", "NAME", "An application's messages instead of a collective: ptdp, chakra:DIR."),
    Spec("size", "BYTES", "Size as nccl-tests means it: 64K, 1M, 2G (binary); 64K:4M:x2 is a sweep.", "1M"),
    Spec("dtype", "TYPE", "Type of the elements.", "float32"),
    Spec("redop", "OP", "What a reduction does: sum, prod, max, min.", "sum"),
    Spec("iterations", "N", "How often the collective runs, at each size.", "12"),
    Spec(
        "faults",
        "FAULT",
        "at=TIME|iter:N VERB OBJECT [key=value ...], or none. May be given several times.",
        "at=iter:4 degrade rail:1 to=20%",
        multiple=True,
    ),
    Spec(
        "rate_scale", "SCALE", "Emulated rate over declared rate, or auto: what this machine carries.", "auto"
    ),
    Spec("path_mtu", "BYTES", "Payload of a full packet: 256, 512, 1024, 2048, 4096.", "4096"),
    Spec("estimator", "NAME", "What turns measurements into h-scores.", "delay"),
    Spec("measure", "SOURCE", "Where health is measured: queue, counters, probe.", "queue"),
    Spec("controller", "NAME", "OpenFlow controller: ryu or os-ken.", "ryu"),
    Spec("transport", "NAME", "What sends the packets.", "rocev2"),
    Spec("engine", "NAME", "What carries the packets.", "emulation"),
    Spec("timeout", "TIME", "Longest time of one iteration, or auto.", "auto"),
    Spec("pcap", "LINK", "Capture a link (FROM->TO) as pcapng. May be given several times.", multiple=True),
    Spec("seed", "N", "Seed of everything drawn at random.", "1"),
    Spec("name", "TEXT", "What you call this experiment."),
)


def experiment_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the experiment's file and all its keys; their values wait in `ctx.params` for `plan_of`."""
    decorators = [
        click.argument(
            "experiment", required=False, metavar="[EXPERIMENT.yaml]", type=click.Path(path_type=Path)
        ),
        *(
            click.option(
                spec.flag,
                spec.key,
                metavar=spec.metavar,
                multiple=spec.multiple,
                help=spec.help + (f"  [default: {spec.default}]" if spec.default else ""),
            )
            for spec in SPECS
        ),
        click.option(
            "--feedback/--no-feedback",
            default=None,
            help="Whether measured health changes the routes.  [default: feedback]",
        ),
        click.option(
            "--oracle",
            is_flag=True,
            default=None,
            help="Tell the router the truth about faults instead of what was measured.",
        ),
        click.option(
            "--set",
            "assignments",
            multiple=True,
            metavar="KEY=VALUE",
            help="Set any key, such as router.same_rail_detour=false or health.dwell=1s.",
        ),
    ]
    for decorator in reversed(decorators):
        function = decorator(function)
    return function


class ExperimentCommand(click.Command):
    """A command whose options include those of every registered topology and workload."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        params = super().get_params(ctx)
        return [*params, *self._plugin_options(ctx, {o for p in params for o in p.opts})]

    def _plugin_options(self, ctx: click.Context, taken: set[str]) -> list[click.Option]:
        cache = ctx.meta.setdefault(_CACHE, {})
        if self.name not in cache:
            found: list[click.Option] = []
            for kind in _OFFERED:
                found += plugin_options(ctx, kind, taken | {o for option in found for o in option.opts})
            cache[self.name] = found
        options: list[click.Option] = cache[self.name]
        return options

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {"": [], **{kind: [] for kind in _OFFERED}}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
            if record is not None:
                kind, double, _ = (param.name or "").partition("__")
                sections[kind if double else ""].append(record)
        for kind, records in sections.items():
            if records:
                with formatter.section(f"Options of {_OFFERED[kind]}" if kind else "Options"):
                    formatter.write_dl(records)


def plugin_options(ctx: click.Context, kind: str, taken: set[str]) -> list[click.Option]:
    """One option per parameter name of any plugin of a kind; those `taken` are left to `--set KIND.NAME=`."""
    help_of: dict[str, tuple[str, str, list[str]]] = {}
    for offer in registers(ctx)[kind].offers():
        for parameter in offer.thing.parameters:
            if parameter.name == "file":  # written NAME:FILE
                continue
            text = f"{parameter.help}; {parameter.expects}"
            help_of.setdefault(parameter.name, (text, parameter.unit.upper(), []))[2].append(offer.name)
    return [
        click.Option(
            [f"--{name.replace('_', '-')}", f"{kind}__{name}"],
            metavar=unit,
            help=f"{text[:1].upper()}{text[1:]}.  [{', '.join(owners)}]",
        )
        for name, (text, unit, owners) in help_of.items()
        if f"--{name.replace('_', '-')}" not in taken
    ]


def overrides_of(params: Mapping[str, Any], ctx: click.Context) -> tuple[dict[str, object], dict[str, str]]:
    """The keys that options set, and what each option is called."""
    values: dict[str, object] = {}
    labels: dict[str, str] = {}
    specs = {spec.key: spec for spec in SPECS}
    for name, value in params.items():
        if value is None or value == ():
            continue
        if name in specs:
            values[name] = list(value) if specs[name].multiple else value
            labels[name] = specs[name].flag
        elif name == "feedback":
            values[name], labels[name] = value, "--feedback" if value else "--no-feedback"
        elif name == "oracle":
            values[name], labels[name] = value, "--oracle"
        elif name.partition("__")[0] in _OFFERED and "__" in name:
            kind, _, option = name.partition("__")
            values[f"{kind}.{option}"] = value
            labels[f"{kind}.{option}"] = f"--{option.replace('_', '-')}"
    for assignment in params.get("assignments", ()):
        key, equals, value = assignment.partition("=")
        key = key.strip().replace("-", "_")
        if not equals or not all(key.split(".")):
            raise click.BadParameter(
                f"{assignment!r} is not KEY=VALUE, such as health.dwell=1s.", ctx=ctx, param_hint="--set"
            )
        if key in values:
            raise click.BadParameter(
                f"{key} is set twice, by {labels[key]} and --set.", ctx=ctx, param_hint="--set"
            )
        values[key], labels[key] = value.strip(), f"--set {key}"
    return values, labels


def plan_of(ctx: click.Context, otherwise: Mapping[str, object] | None = None) -> Plan:
    """The checked plan of the file and options given. Raises ExperimentError that lists everything wrong.

    `otherwise`: keys that differ from a run's defaults for this command, where no option says.
    """
    from railweave.framework.experiment import load

    values, labels = overrides_of(ctx.params, ctx)
    return load(ctx.params.get("experiment"), {**(otherwise or {}), **values}, registers(ctx), labels)
