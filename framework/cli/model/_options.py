"""Options that several `railweave model` commands share: quantities with units, the GPU, and what excludes
what."""

from collections.abc import Callable, Collection
from functools import wraps
from typing import Any

import click
from click.core import ParameterSource

from railweave.framework.parameters import Parameter, Unit, Value


class Quantity(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.2 on
    """An option in the units of `parameters.Parameter`; the command receives bytes, bit/s, seconds or a
    share of 0..1."""

    def __init__(self, unit: Unit, name: str, minimum: float | None) -> None:
        self.name = name
        self._unit, self._minimum = unit, minimum

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Value:
        option = param.opts[0] if param else self.name
        return Parameter(option, self._minimum or 0, self._unit, "", minimum=self._minimum).parse(value)


SIZE, RATE, TIME = Quantity("bytes", "bytes", 0), Quantity("rate", "rate", 1), Quantity("time", "time", 0)
SHARE = Quantity("ratio", "share", None)


def value_option(name: str, default: Any, kind: Any, text: str) -> Callable[..., Any]:
    """An option with a default that `--help` shows, repeatable where the default is a tuple; `name` may carry
    the argument's name behind a blank."""
    return click.option(
        *name.split(),
        default=default,
        type=kind,
        multiple=isinstance(default, tuple),
        show_default=True,
        help=text,
    )


def gpu_options(default: str) -> Callable[..., Any]:
    """`--gpu`, `--domain-rate` and `--rail-rate`; the rates in bit/s, None where the preset's hold."""

    def add(command: Any) -> Any:
        rail = "Rate of a GPU's rail interface, per direction. [that of --gpu]"
        domain = "Rate of a GPU into its HB domain, per direction. [that of --gpu]"
        rates = click.option("--domain-rate", type=RATE, help=domain)(
            click.option("--rail-rate", type=RATE, help=rail)(command)
        )
        return value_option("--gpu", default, str, "Preset of a GPU: a100 or h100.")(rates)

    return add


def bundled(name: str, make: Callable[..., object], *arguments: str) -> Callable[..., Any]:
    """The command receives, in place of these arguments, `name`: what `make` gives for them."""

    def bundle(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def with_bundle(**values: Any) -> Any:
            choice = make(*(values.pop(argument) for argument in arguments))
            return command(**values, **{name: choice})

        return with_bundle

    return bundle


def refuse_others(ctx: click.Context, flag: str, allowed: Collection[str]) -> None:
    """Refuse by name every option of the command line that has no effect with `flag`; `allowed` by argument
    name."""
    without_effect = [
        param.opts[0]
        for param in ctx.command.params
        if param.name not in allowed
        and ctx.get_parameter_source(str(param.name)) is ParameterSource.COMMANDLINE
    ]
    if without_effect:
        raise click.UsageError(
            f"{flag} does not use {', '.join(without_effect)}. Leave "
            f"{'it' if len(without_effect) == 1 else 'them'} out, or leave {flag} out.",
            ctx,
        )
