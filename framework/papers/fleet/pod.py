"""What a pod is made of, and how often its parts fail."""

from dataclasses import dataclass, fields
from pathlib import Path

from railweave.framework.errors import ExperimentError, did_you_mean
from railweave.framework.experiment.yaml_reader import read
from railweave.framework.parameters.units import parse_ratio

CUBE_SIDE = 4
"""Chips."""
CHIPS_PER_CUBE = CUBE_SIDE**3
"""A cube is a mesh of 4x4x4 chips. Source: sections 5 and 7."""
HOSTS_PER_CUBE = CHIPS_PER_CUBE // 4
"""A host serves a tray of 2x2 chips. Source: Jouppi et al., "TPU v4", ISCA 2023, section 2."""
CIRCUITS_PER_AXIS = CUBE_SIDE**2
"""Links that leave one face of a cube; links of equal position on opposite faces share an OCS. Source: Jouppi
et al., section 2."""
SWITCHES = 3 * CIRCUITS_PER_AXIS
"""OCSes of a pod: one for every axis and position on a face."""
OPTICAL_CABLES = 6 * CIRCUITS_PER_AXIS
"""Of a cube: a fibre for every link of its faces."""
ELECTRICAL_CABLES = 3 * CUBE_SIDE**2 * (CUBE_SIDE - 1) - 4 * HOSTS_PER_CUBE
"""Of a cube: a fibre for every link of its faces, and a cable for every link inside that does not stay on a
tray, which has 4."""
CABLES_PER_CUBE = OPTICAL_CABLES + ELECTRICAL_CABLES


@dataclass(frozen=True, slots=True)
class Pod:
    """`cubes` in all; jobs use at most `cubes - spares` at a time, and the others replace cubes that fail.

    Raises ExperimentError for a pod without cubes for jobs.
    """

    cubes: int = 64
    spares: int = 4

    def __post_init__(self) -> None:
        if self.cubes < 1:
            raise ExperimentError(f"a pod of {self.cubes} cubes: it needs 1 or more.")
        if not 0 <= self.spares < self.cubes:
            raise ExperimentError(
                f"{self.spares} spare cubes in a pod of {self.cubes}: jobs need 1 cube or more. Keep 0 to "
                f"{self.cubes - 1} in reserve."
            )

    @property
    def for_jobs(self) -> int:
        """Cubes that jobs may use at a time."""
        return self.cubes - self.spares


@dataclass(frozen=True, slots=True)
class FailureRates:
    """Failures a day of one host, one cable and one OCS. Defaults: figure 12."""

    hosts: float = 0.0008
    cables: float = 0.00005
    ocs: float = 0.0004


def read_rates(path: Path) -> FailureRates:
    """The rates in a YAML or JSON file such as `{hosts: 0.08%, cables: 0.005%, ocs: 0.0004}`: failures of one
    component a day.

    Raises ExperimentError that lists every field that is missing, unknown or no rate, with its line.
    """
    settings = read(path)
    names = [field.name for field in fields(FailureRates)]
    rates: dict[str, float] = {}
    for key, value in settings.value.items():
        if key not in names:
            settings.report(
                (key,),
                f"there is no such rate; the file holds {', '.join(names)}.{did_you_mean(key, names)} "
                "Remove it or correct its name.",
            )
            continue
        try:
            rates[key] = parse_ratio(str(value))
        except ValueError:
            settings.report(
                (key,),
                f"{value!r} is not a share of components that fail in a day. Write 0.0008 or 0.08%.",
            )
    for name in names:
        if name not in settings.value and not any(problem.key == (name,) for problem in settings.problems):
            settings.report(
                (), f"{path}: {name} is missing. Add the failures of one component a day, such as 0.08%."
            )
    settings.check()
    return FailureRates(**rates)
