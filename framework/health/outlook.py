"""What is to be expected of links, for the decision to leave or to return."""

from dataclasses import dataclass

from railweave.framework.model import HealthSnapshot

OUTLIVED = 2.0
"""A link is in a state for good once that has lasted longer than it did in the past by this factor."""


@dataclass(frozen=True, eq=False, slots=True)
class Outlook:
    """What routes are decided by. `health`: the scores that a router is asked with, of links that come and go
    their mean over recent episodes, and as if those were up that are expected back. `prospects`: snapshots to
    expect, each with its share of the time, the best one last; by these it is said when a demand ends.
    `outage`: what else may be done about links that are expected back; None where there are none."""

    health: HealthSnapshot
    prospects: tuple[tuple[float, HealthSnapshot], ...]
    outage: "Outage | None" = None

    @classmethod
    def steady(cls, health: HealthSnapshot) -> "Outlook":
        """All links stay as they are."""
        return cls(health, ((1.0, health),))


@dataclass(frozen=True, eq=False, slots=True)
class Outage:
    """Links that are down and expected back. `otherwise`: what to decide by if they are left all the same;
    `lasts_s`: for how long they usually are down, in declared seconds."""

    otherwise: Outlook
    lasts_s: float

    @property
    def most_s(self) -> float:
        """For how long they are expected back, in declared seconds."""
        return OUTLIVED * self.lasts_s
