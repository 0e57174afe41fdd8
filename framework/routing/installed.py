"""Which rules the switches hold, and for which pairs: the state that one update leaves to the next."""

from dataclasses import dataclass

import numpy as np

from railweave.framework.model import Fabric, PathBatch, Rule
from railweave.framework.model.arrays import ArrayNoun, Bool, Int64
from railweave.framework.routing.batches import unreachable
from railweave.framework.routing.compiler import INGRESS_PRIORITY, base_rules

NO_TAG = -1


@dataclass(frozen=True, eq=False)
class Installed(ArrayNoun):
    """The rules in place once the last update is retired, and which ordered pair uses which of them.

    P pairs, those of `batch`. `tag` (P,): version tag of each, NO_TAG without a path. `batch`: their
    paths; `classes` (Q,): the entropy class of each path. `rules`: the GPUs' base rules first. `use_rule`,
    `use_pair` (U,): rule use_rule[i] serves pair use_pair[i]. `top` (n_gpus,): the highest priority that an
    ingress rule ever had there. `last_tag`: the tag assigned last.
    `fresh`: how many rules the last compile of all pairs at once came to.
    """

    version: int
    tag: Int64
    batch: PathBatch
    classes: Int64
    rules: tuple[Rule, ...]
    use_rule: Int64
    use_pair: Int64
    top: Int64
    last_tag: int
    fresh: int

    @property
    def unreachable(self) -> Int64:
        """(M, 2): the pairs [src, dst] that have no path; their packets are dropped where they enter."""
        return unreachable(self.batch)

    @property
    def is_ingress(self) -> Bool:
        """(len(rules),): whether the rule takes packets from a host."""
        return np.array([rule.priority >= INGRESS_PRIORITY for rule in self.rules], bool)


def nothing_installed(fabric: Fabric, src: Int64, dst: Int64) -> Installed:
    """Every one of these pairs unreachable: only the base rules, which drop what hosts send."""
    none = np.empty(0, np.int64)
    zeros, links = np.zeros(len(src) + 1, np.int64), np.empty(0, np.int32)
    batch = PathBatch(src, dst, zeros, np.empty(0), zeros[:1], links)
    return Installed(
        0,
        np.full(len(src), NO_TAG),
        batch,
        none,
        tuple(base_rules(fabric)),
        src,
        np.arange(len(src)),
        np.full(fabric.n_gpus, INGRESS_PRIORITY),
        NO_TAG,
        fabric.n_gpus,
    )
