"""The cycle of paused links that a deadlock consists of."""

from dataclasses import dataclass

import numpy as np

from railweave.framework.model import Fabric
from railweave.plugins.packet.layout import BUFFERS, DATA, NONE, PAUSED, State
from railweave.plugins.packet.pauses import first_stuck


@dataclass(frozen=True, slots=True)
class Deadlock:
    """Links that are paused for ever: those of `cycle` wait each for the next one, the last for the first.
    `paused`: how many there are in all; `jobs`: whose packets wait there."""

    cycle: tuple[int, ...]
    paused: int
    jobs: frozenset[int]

    def described(self, fabric: Fabric) -> str:
        """In words, with the names of links."""
        links = [fabric.link_name(link) for link in self.cycle]
        some = ", ".join(links[:12]) + (f" and {len(links) - 12} more" if len(links) > 12 else "")
        others = self.paused - len(links)
        others_too = f" {others} more links are paused for ever." if others else ""
        return (
            f"deadlock: links {some} are paused (PFC), each until the next one goes on, the last until the "
            f"first does.{others_too} Use routes whose links do not wait for each other in a cycle, raise "
            "xoff, or leave pfc out."
        )


def deadlock_of(s: State) -> Deadlock | None:
    """The deadlock that there is now, None without one."""
    if not s.globals[BUFFERS] & PAUSED or first_stuck(s) == NONE:
        return None
    stuck = np.flatnonzero(s.port["stuck"]).tolist()
    waits_for: dict[int, int] = {}
    jobs = set[int]()
    for link in stuck:
        i = int(s.link[link]["head"][DATA])
        while i != NONE:
            packet = s.packet[i]
            if packet["hop"] > 0:
                came = int(s.hops[packet["start"] + packet["hop"] - 1])
                waits_for.setdefault(came, link)
            pair = s.pair[packet["pair"]]
            if packet["epoch"] == pair["epoch"]:
                jobs.add(int(pair["job"]))
            i = int(packet["next"])
    path = [stuck[0]]
    while waits_for[path[-1]] not in path:
        path.append(waits_for[path[-1]])
    cycle = path[path.index(waits_for[path[-1]]) :]
    first = cycle.index(min(cycle))
    return Deadlock((*cycle[first:], *cycle[:first]), len(stuck), frozenset(jobs))
