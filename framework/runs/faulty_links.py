"""What faults have made of the links of an engine that computes."""

import numpy as np

from railweave.framework.errors import LabError
from railweave.framework.experiment.faults import ResolvedFault
from railweave.framework.model import Fabric
from railweave.framework.model.arrays import Bool, Float


class FaultyLinks:
    """The links (L,) of a fabric: the `share` of its rate that each has, whether it is `up`, with a switch at
    both ends, the `loss`, packets that do not reach the far end, and `right_icrc`, the share of those there
    whose ICRC is right. `lossy`: whether one loses or spoils some now; `ever_lossy`: whether one ever did."""

    def __init__(self, fabric: Fabric) -> None:
        n = fabric.n_links
        self._fabric = fabric
        self.share, self.up, self.loss = np.ones(n), np.ones(n, bool), np.zeros(n)
        self._down, self._dead = np.zeros(n, bool), np.zeros(fabric.n_nodes, bool)
        self._arriving = {verb: np.ones(n) for verb in ("loss", "corrupt", "icrc")}
        self.lossy = self.ever_lossy = False

    def inject(self, fault: ResolvedFault, engine: str) -> None:
        """Raises LabError where the `engine`, of this name, cannot."""
        cables = np.concatenate((fault.links, fault.links ^ 1))
        match fault.verb:
            case "degrade":
                self.share[fault.links] = float(fault.options["to"])
            case "down" | "up" as carrier:
                self._down[cables] = carrier == "down"
            case "loss" | "corrupt" as verb:
                share = 1 - float(fault.options["rate"])
                self._arriving["icrc" if fault.options.get("icrc") else verb][fault.links] = share
            case "restore":
                self.share[fault.links], self._down[cables] = 1.0, False
                for arriving in self._arriving.values():
                    arriving[fault.links] = 1.0
            case "kill" | "start":
                self._dead[fault.node] = fault.verb == "kill"
            case other:
                raise LabError(f"{fault.text!r}: the engine {engine} cannot {other}.")
        self.loss = 1 - self._arriving["loss"] * self._arriving["corrupt"]
        self.lossy = any(bool((arriving < 1).any()) for arriving in self._arriving.values())
        self.ever_lossy |= self.lossy
        fabric = self._fabric
        self.up = ~(self._down | self._dead[fabric.link_src] | self._dead[fabric.link_dst])

    @property
    def right_icrc(self) -> Float:
        return self._arriving["icrc"]

    @property
    def through(self) -> Float:
        """(L,): the share of packets that get through each link with the right ICRC."""
        return (1 - self.loss) * self.right_icrc

    @property
    def passing(self) -> Bool:
        """(L,): links over which some packets get, and answers over the other direction of the cable."""
        through: Bool = self.up & (self.through > 0)
        passing: Bool = through & through[np.arange(len(through)) ^ 1]
        return passing
