"""Every error railweave raises on purpose: what is wrong, why, and the mend.

The command prints the message and exits with `exit_code`: 2 for bad usage, input or machine, 1 for a run
that failed.
"""

from __future__ import annotations


class RailweaveError(Exception):
    """Base of all; never raised itself."""

    exit_code = 1


class InputError(RailweaveError):
    """Something the user gave cannot be used. Nothing was started."""

    exit_code = 2


class ExperimentError(InputError):
    """The experiment file or an option is wrong; names file, line, allowed values and the mend."""


class FabricError(InputError):
    """A fabric that cannot exist."""


class FaultError(InputError):
    """A fault that cannot be read, or whose object is not in the fabric."""


class PluginError(InputError):
    """A plugin is unknown, clashes with another, or broke its contract."""


class UnsupportedFabricError(InputError):
    """A router or collective was given a kind of fabric it does not serve; says which it does."""


class MachineError(InputError):
    """This machine lacks something the run needs; names it and the mend."""


class RunFailedError(RailweaveError):
    """A run started and could not end as it should."""


class NoPathError(RunFailedError):
    """A pair is cut off; names the pair and the links that are down."""


class HealthError(RailweaveError):
    """A score outside 0..1 or not a number, or a registry copy that is out of date."""


class RouteError(RailweaveError):
    """A routing plugin gave a path that no packet could follow; names router, pair and link."""


class LabError(RunFailedError):
    """The lab could not be built, or a part of it died; carries the last lines of its log."""


class ControllerError(RunFailedError):
    """The OpenFlow controller died too often, or a switch refused a rule."""


class TransportError(RunFailedError):
    """The transport died or could not deliver; names the ranks."""


class ChannelClosedError(RunFailedError):
    """The process at the other end of a channel is gone."""
