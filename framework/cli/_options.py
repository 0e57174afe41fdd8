"""Options of the commands that take an experiment, generated from the declarations of its keys and of
plugins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from railweave.framework.cli._context import registers

if TYPE_CHECKING:
    from railweave.framework.experiment.plan import Plan
    from railweave.framework.experiment.schema import Key

_CACHE = "railweave.options"
_OFFERED = {"topology": "topologies", "workload": "workloads", "engine": "engines"}
"""Kinds of plugins whose parameters are options of the command, and what the help calls them."""


def experiment_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the experiment's file and `--set`; with `cls=ExperimentCommand` all keys follow."""
    decorators = [
        click.argument(
            "experiment", required=False, metavar="[EXPERIMENT.yaml]", type=click.Path(path_type=Path)
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
    """A command whose options include the experiment's `keys` (None: all) and the parameters of every
    registered plugin of `kinds`. Their values wait in `ctx.params` for `plan_of`."""

    keys: tuple[str, ...] | None = None
    kinds: tuple[str, ...] = tuple(_OFFERED)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        params = super().get_params(ctx)
        cache = ctx.meta.setdefault(_CACHE, {})
        if self.name not in cache:
            options = key_options(self.keys)
            for kind in self.kinds:
                options += plugin_options(ctx, kind, {o for p in [*params, *options] for o in p.opts})
            cache[self.name] = options
        generated: list[click.Option] = cache[self.name]
        return [*params, *generated]

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


class FabricCommand(ExperimentCommand):
    """A command about a fabric without a lab."""

    keys: tuple[str, ...] | None = ()
    kinds = ("topology",)


class RouteCommand(FabricCommand):
    """A command about a fabric and its routes without a lab."""

    keys = ("topology", "router")


def flag(name: str) -> str:
    """The option that sets a key."""
    return "--" + ("fault" if name == "faults" else name.replace("_", "-"))


def key_options(names: tuple[str, ...] | None) -> list[click.Option]:
    """An option for each key of the experiment file; sections are left to `--set`."""
    from railweave.framework.experiment.schema import KEYS

    return [
        _key_option(name, key)
        for name, key in KEYS.items()
        if key.shape not in ("section", "reports") and (names is None or name in names)
    ]


def _key_option(name: str, key: Key) -> click.Option:
    from railweave.framework.experiment.reference import default_text

    switch = key.unit == "bool"
    on_off = switch and default_text(name) == "true"
    default = "" if switch else default_text(name)
    default = flag(name)[2:] if on_off else default
    choices = f" One of {', '.join(key.choices)}." if key.choices else ""
    return click.Option(
        [f"{flag(name)}/--no-{name}" if on_off else flag(name), name],
        is_flag=switch,
        default=None,
        metavar=None if switch else key.metavar or key.unit.upper(),
        multiple=key.shape == "texts",
        help=key.help + choices + (f"  [default: {default}]" if default else ""),
    )


def plugin_options(ctx: click.Context, kind: str, taken: set[str]) -> list[click.Option]:
    """One option per parameter name of any plugin of a kind; those `taken` are left to `--set KIND.NAME=`."""
    help_of: dict[str, tuple[str, str, list[str]]] = {}
    for offer in registers(ctx)[kind].offers():
        for parameter in offer.registered.parameters:
            if parameter.name == "file":  # written NAME:FILE
                continue
            text = f"{parameter.help}; {parameter.expects}"
            help_of.setdefault(parameter.name, (text, parameter.unit.upper(), []))[2].append(offer.name)
    return [
        click.Option(
            [flag(name), f"{kind}__{name}"],
            metavar=unit,
            help=f"{text[:1].upper()}{text[1:]}.  [{', '.join(owners)}]",
        )
        for name, (text, unit, owners) in help_of.items()
        if flag(name) not in taken
    ]


def overrides_of(params: Mapping[str, Any], ctx: click.Context) -> tuple[dict[str, object], dict[str, str]]:
    """The keys that options set, and what each option is called."""
    from railweave.framework.experiment.schema import KEYS

    values: dict[str, object] = {}
    labels: dict[str, str] = {}
    for name, value in params.items():
        kind, _, option = name.partition("__")
        if value is None or value == () or not (name in KEYS or (option and kind in _OFFERED)):
            continue
        key = f"{kind}.{option}" if option else name
        values[key] = list(value) if isinstance(value, tuple) else value
        labels[key] = "--no-" + name if value is False else flag(option or name)
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
    from railweave.framework.experiment.plan import load_plan

    values, labels = overrides_of(ctx.params, ctx)
    return load_plan(ctx.params.get("experiment"), {**(otherwise or {}), **values}, registers(ctx), labels)
