"""Options of the commands that take an experiment, generated from the declarations of its keys and of
plugins."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from railweave.framework.cli._context import registers, sentence
from railweave.framework.experiment.engines import computing
from railweave.framework.experiment.plan import Plan, Routed, build_routed, load_plan
from railweave.framework.experiment.reference import default_text
from railweave.framework.experiment.schema import KEYS, Key
from railweave.framework.experiment.sources import SPELLINGS
from railweave.framework.parameters import Parameter

_CACHE = "railweave.options"
EVERYTHING = "railweave.help-all"
"""Key of click's `ctx.meta` that --help-all sets."""
COMMON = (
    "engine", "topology", "topology__domains", "topology__rails", "router", "collective", "workload", "size",
    "iterations", "faults", "feedback", "jobs", "help_all",
)  # fmt: skip
"""Parameters of an experiment that `--help` shows, in this order, where `--help-all` shows the others."""
_OFFERED = {"topology": "topologies", "workload": "workloads", "engine": "engines"}
"""Kinds of plugins whose parameters are options of the command, and what the help calls them."""


def _set_option(text: str) -> click.Option:
    return click.Option(["--set", "assignments"], multiple=True, metavar="KEY=VALUE", help=text)


def _help_all(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        ctx.meta[EVERYTHING] = True
        click.echo(ctx.get_help())
        ctx.exit()


_HELP_ALL = click.Option(
    ["--help-all"], is_flag=True, is_eager=True, expose_value=False, callback=_help_all,
    help="Show every option, those of plugins included.",
)  # fmt: skip


LEADING: tuple[click.Parameter, ...] = (
    click.Argument(
        ["experiment"], required=False, metavar="[EXPERIMENT.yaml]", type=click.Path(path_type=Path)
    ),
    _set_option("Set any key, such as router.same_rail_detour=false or health.dwell=1s."),
)
"""Parameters of a command that takes an experiment file."""


class ExperimentCommand(click.Command):
    """A command whose parameters include `leading` ones, the experiment's `keys` (None: all) and those of
    every registered plugin of `kinds`. Their values wait in `ctx.params` for `plan_of`.

    `defaults`: of keys, where they differ from those of a run, for the help. `refused`: keys that the command
    refuses with a reason; the help leaves them out. `common`: parameters that `--help` shows in this order;
    none: the command's own, then those of `COMMON`.
    """

    def __init__(
        self,
        *arguments: Any,
        leading: tuple[click.Parameter, ...] = LEADING,
        keys: tuple[str, ...] | None = None,
        kinds: tuple[str, ...] = tuple(_OFFERED),
        defaults: Mapping[str, object] = {},
        refused: tuple[str, ...] = (),
        common: tuple[str, ...] = (),
        **attributes: Any,
    ) -> None:
        super().__init__(*arguments, **attributes)
        self.leading, self.keys, self.kinds = leading, keys, kinds
        self.defaults, self.refused, self.common = defaults, refused, common

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        params = [*self.leading, *super().get_params(ctx), _HELP_ALL]
        if _CACHE not in ctx.meta:
            options = key_options(self.keys, self.defaults, self.refused)
            for kind in self.kinds:
                options += plugin_options(ctx, kind, {o for p in [*params, *options] for o in p.opts})
            ctx.meta[_CACHE] = options
        return [*params, *ctx.meta[_CACHE]]

    def get_help(self, ctx: click.Context) -> str:
        """With the name of the engine that computes runs in the place of `{engine}`."""
        return super().get_help(ctx).replace("{engine}", next(iter(computing(registers(ctx))), "NAME"))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if EVERYTHING in ctx.meta:
            self._format_all(ctx, formatter)
            return
        named = {param.name: param for param in self.get_params(ctx)}
        records = [] if self.common else [param.get_help_record(ctx) for param in self.params]
        common = (named[name].get_help_record(ctx) for name in self.common or COMMON if name in named)
        short = [(names, _in_short(text)) for names, text in filter(None, common)]
        with formatter.section("Common options"):
            formatter.write_dl([*filter(None, records), *short])

    def _format_all(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {"": [], **{kind: [] for kind in _OFFERED}}
        for param in self.get_params(ctx):
            if isinstance(param, click.Option) and (record := param.get_help_record(ctx)):
                kind, double, _ = (param.name or "").partition("__")
                sections[kind if double else ""].append(record)
        for kind, records in sections.items():
            if records:
                with formatter.section(f"Options of {_OFFERED[kind]}" if kind else "Options"):
                    formatter.write_dl(records)


def _in_short(text: str) -> str:
    """What an option is, without what it takes and its default."""
    return re.split(r"  \[|[.;:] ", text)[0].removesuffix(".") + "."


FABRIC: Mapping[str, Any] = {
    "cls": ExperimentCommand,
    "leading": (
        click.Argument(["name"], required=False, default="rail-only"),
        _set_option("Set any option, as topology.KEY=VALUE."),
    ),
    "keys": (),
    "kinds": ("topology",),
}
"""What makes a command one about a fabric without a lab."""
ROUTES: Mapping[str, Any] = {
    "cls": ExperimentCommand,
    "leading": (
        click.Option(
            ["--fault", "faults"],
            metavar="FAULT",
            multiple=True,
            help="A fault that has already happened: VERB OBJECT [key=value], such as 'down rail:1' or "
            "'degrade rail:1 to=20%'. A leading at= is ignored. May be given several times.",
        ),
        _set_option("Set any option of the fabric or router, such as router.same_rail_detour=false."),
    ),
    "keys": ("topology", "router"),
    "kinds": ("topology",),
}
"""What makes a command one about a fabric, its routes and faults that have already happened."""


def flag(name: str) -> str:
    """The option that sets a key."""
    return "--" + {"faults": "fault", "jobs": "job"}.get(name, name.replace("_", "-"))


def key_options(
    names: tuple[str, ...] | None, defaults: Mapping[str, object] = {}, refused: tuple[str, ...] = ()
) -> list[click.Option]:
    """An option for each key of the experiment file; sections are left to `--set`."""
    return [
        _key_option(name, key, str(defaults.get(name, default_text(name))), hidden=name in refused)
        for name, key in KEYS.items()
        if key.shape not in ("section", "reports") and (names is None or name in names)
    ]


def _key_option(name: str, key: Key, default: str, *, hidden: bool) -> click.Option:
    switch = key.unit == "bool"
    on_off = switch and default == "true"
    shown = flag(name)[2:] if on_off else "" if switch else default
    choices = f" One of {', '.join(key.choices)}." if key.choices else ""
    several = key.shape in ("texts", "jobs")
    return click.Option(
        [f"{flag(name)}/--no-{name}" if on_off else flag(name), name],
        is_flag=switch,
        default=None,
        metavar=None if switch else key.metavar or key.unit.upper(),
        multiple=not switch,
        hidden=hidden,
        callback=None if switch or several else _only_one,
        help=key.help + choices + (f"  [default: {shown}]" if shown else ""),
    )


def _only_one(ctx: click.Context, option: click.Parameter, values: tuple[str, ...]) -> str | None:
    """The value of an option that takes one: of two, neither is silently preferred."""
    if len(values) > 1:
        raise click.BadParameter(f"given {len(values)} times: {', '.join(values)}. Give one.", ctx, option)
    return values[0] if values else None


def plugin_options(ctx: click.Context, kind: str, taken: set[str]) -> list[click.Option]:
    """One option per parameter name of any plugin of a kind; those `taken` are left to `--set KIND.NAME=`."""
    parameters: dict[str, Parameter] = {}
    owners: dict[str, list[str]] = {}
    for owner, plugin in registers(ctx)[kind].items():
        for parameter in plugin.parameters:
            parameters.setdefault(parameter.name, parameter)
            owners.setdefault(parameter.name, []).append(owner)
    return [
        click.Option(
            [flag(name), f"{kind}__{name}"],
            metavar=parameter.unit.upper(),
            multiple=True,
            callback=_only_one,
            help=sentence(f"{parameter.help}; {parameter.expects}") + f"  [{', '.join(owners[name])}]",
        )
        for name, parameter in parameters.items()
        if name != "file" and flag(name) not in taken  # a file is written NAME:FILE
    ]


def overrides_of(ctx: click.Context) -> tuple[dict[str, object], dict[str, str]]:
    """The keys that options set, and what each option is called."""
    values: dict[str, object] = {}
    labels: dict[str, str] = {}
    for name, value in ctx.params.items():
        kind, _, option = name.partition("__")
        if value is None or value == () or not (name in KEYS or (option and kind in _OFFERED)):
            continue
        key = f"{kind}.{option}" if option else name
        values[key] = list(value) if isinstance(value, tuple) else value
        labels[key] = "--no-" + name if value is False else flag(option or name)
    for assignment in ctx.params["assignments"]:
        key, equals, value = assignment.partition("=")
        key = key.strip().replace("-", "_")
        key = SPELLINGS.get(key, key)
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
    values, labels = overrides_of(ctx)
    return load_plan(ctx.params["experiment"], {**(otherwise or {}), **values}, registers(ctx), labels)


def routed_of(ctx: click.Context) -> Routed:
    """The fabric, the router and its name, and the faults resolved in the fabric."""
    return build_routed(*overrides_of(ctx), registers(ctx))
