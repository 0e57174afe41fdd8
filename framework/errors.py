"""Every error railweave raises on purpose: what is wrong, why, and the fix.

The command prints the message and exits with `exit_code`: 2 for bad usage, input or machine, 1 for a run
that failed. `blaming` turns what a plugin raises into one of these, naming plugin, file and line.
"""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import CodeType
from typing import Any


class RailweaveError(Exception):
    """Base of all; never raised itself."""

    exit_code = 1


class InputError(RailweaveError):
    """Input that cannot be used. Nothing was started."""

    exit_code = 2


class ExperimentError(InputError):
    """The experiment file or an option is wrong; names file, line, allowed values and the fix."""


class FabricError(InputError):
    """A fabric that cannot exist."""


class FaultError(InputError):
    """A fault that cannot be read, or whose object is not in the fabric."""


class PluginError(InputError):
    """A plugin is unknown, clashes with another, or breaks its contract."""


class UnsupportedFabricError(InputError):
    """A kind of fabric that a router or collective does not serve; names those it does."""


class MachineError(InputError):
    """This machine lacks something the run needs; names it and the fix."""


class RunFailedError(RailweaveError):
    """A run started and failed."""


class UnwrittenError(RunFailedError):
    """A run ended, and its result could not be written; `result` holds it."""

    def __init__(self, message: str, result: Any) -> None:
        super().__init__(message)
        self.result = result


class NoPathError(RunFailedError):
    """A pair is unreachable; names the pair and the links that are down."""


class HealthError(RailweaveError):
    """A score outside 0..1 or not a number, or a snapshot of another fabric or of another order of rails."""


class RouteError(RailweaveError):
    """A router returned a path that no packet could follow; names router, pair and link."""


class LabError(RunFailedError):
    """The lab could not be built, or a part of it died; carries the last lines of its log."""


class ControllerError(RunFailedError):
    """The OpenFlow controller died too often, or a switch refused a rule."""


class NotInstalledError(MachineError):
    """A part that not every installation has is missing; the message names how to get it."""


class TransportError(RunFailedError):
    """The transport died or could not deliver; names the ranks."""


class ProgramError(RunFailedError):
    """A program failed or took too long; names its first rank that failed, with its last lines."""


class ChannelClosedError(RunFailedError):
    """The process at the other end of a channel is gone."""


PLUGIN_FAILURES = (Exception, SystemExit)
"""What a plugin may raise: it has no say in when the command ends."""


def did_you_mean(word: object, candidates: Iterable[str]) -> str:
    """` Did you mean rails?`, or nothing where no known word is near."""
    from difflib import get_close_matches  # only a mistake needs it

    near = get_close_matches(str(word), list(candidates), 1)
    return f" Did you mean {near[0]}?" if near else ""


@contextmanager
def blaming(subject: str, kind: type[RailweaveError] = PluginError) -> Iterator[None]:
    """Inside the block, an exception that is not of this module becomes a `kind` that names `subject` (such
    as `router mine`) and the file and line of the plugin's code that raised it."""
    try:
        yield
    except RailweaveError:
        raise
    except MemoryError as error:
        how_much = f" ({str(error).rstrip('.')})" if str(error) else ""
        raise kind(
            f"{subject} needs more memory than this machine has{how_much}. Choose a smaller fabric."
        ) from None
    except PLUGIN_FAILURES as error:
        raise kind(f"{subject} fails with {describe(error)}.") from error


def describe(error: BaseException) -> str:
    """`KeyError: 'gpu' (/home/me/mine/router.py:42)`: type, message and place of what a plugin raised."""
    words = type(error).__name__ + (f": {error}" if str(error) else "")
    return f"{words.rstrip('.')} ({place})" if (place := raised_at(error)) else words.rstrip(".")


def raised_at(error: BaseException) -> str:
    """`FILE:LINE` of the innermost frame in the package of the first frame that is not the framework's own or
    a library's; empty where there is none."""
    package, place, step = "", "", error.__traceback__
    while step is not None:
        name = str(step.tb_frame.f_globals.get("__name__", ""))
        top = ".".join(name.split(".")[: 2 if name.startswith("railweave.") else 1])
        if not package and top not in _NOT_PLUGINS and top not in sys.stdlib_module_names:
            package = top
        if package and top == package:
            place = f"{step.tb_frame.f_code.co_filename}:{step.tb_lineno}"
        step = step.tb_next
    return place


def type_name(value: object) -> str:
    """`a list`, or `nothing` for None: what a plugin answered with."""
    return "nothing" if value is None else f"a {type(value).__name__}"


def defined_at(plugin: Any) -> str:
    """`FILE:LINE` of a function, or of the class of any other object; its module where no source is known."""
    import inspect

    code = getattr(inspect.unwrap(plugin) if callable(plugin) else plugin, "__code__", None)
    if isinstance(code, CodeType):
        return f"{code.co_filename}:{code.co_firstlineno}"
    owner = plugin if inspect.isclass(plugin) else type(plugin)
    try:
        return f"{inspect.getsourcefile(owner)}:{inspect.getsourcelines(owner)[1]}"
    except (OSError, TypeError):
        return owner.__module__


_NOT_PLUGINS = frozenset({"railweave.framework", "click", "numpy", "pluggy", "pydantic", "pydantic_core"})
