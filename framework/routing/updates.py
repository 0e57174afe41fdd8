"""From one route table to the next without losing a packet or mixing two tables on its way.

Per-packet consistency by version tags in two phases (Reitblatt, Foster, Rexford, Schlesinger and Walker,
"Abstractions for network update", SIGCOMM 2012), but for the changed pairs only: their transit rules are
installed under a tag that no packet carries, then their ingress rules switch them over, and what no pair uses
any more goes once the packets under way have drained. Updates are to be retired in their order, each at the
latest GUARD updates on.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from railweave.framework.model import EntropyTable, Fabric, RouteTable, Rule, RuleUpdate
from railweave.framework.model.arrays import Int64
from railweave.framework.routing.batches import all_paths, same_paths
from railweave.framework.routing.compiler import compile_batch
from railweave.framework.routing.entropy import entropy_table
from railweave.framework.routing.installed import Installed, nothing_installed
from railweave.framework.routing.migrate import migrate

TAGS = 62
"""Version tags 1..62 are given in turn. 0 is that of the first table, 63 that of probe trains."""

GUARD = 8
"""How many of the next tags are kept free of pairs, so that the rules of as many updates may linger."""

BLOAT = 1.5
"""How many times the rules of a fresh compile may be in place before all pairs are compiled afresh."""


def initial(fabric: Fabric, table: RouteTable) -> tuple[Installed, tuple[Rule, ...], EntropyTable]:
    """The first state, all its rules, and what senders need; every pair has tag 0."""
    batch = all_paths(table)
    everyone = np.ones(len(batch.src), bool)
    state, _ = migrate(fabric, nothing_installed(fabric), batch, everyone, 0, table.version)
    return state, state.rules, entropy_table(fabric, table.version, batch, state.classes)


def plan(
    fabric: Fabric, installed: Installed, table: RouteTable
) -> tuple[Installed, RuleUpdate, EntropyTable, Int64]:
    """The state after the update to `table`, the update, what senders need once it is applied, and (M, 2) the
    pairs [src, dst] whose paths change. Pairs without a path are in the state's `cut_pairs`.

    Unchanged pairs keep their rules, but for two cases: those whose tag is next in turn but GUARD move along to
    the new tag; and if the rules came to more than BLOAT times those of a fresh compile, all pairs do.
    """
    batch = all_paths(table)
    changed = ~same_paths(installed.batch, batch)
    if not changed.any():
        state = replace(installed, version=table.version, batch=batch)
        update = RuleUpdate(table.version, (), (), ())
    else:
        tag = _after(installed.last_tag, 1)
        moved = changed | (installed.tag == _after(tag, GUARD))
        state, update = migrate(fabric, installed, batch, moved, tag, table.version)
        if not moved.all() and len(state.rules) > BLOAT * len(compile_batch(fabric, batch)):
            everyone = np.ones(len(moved), bool)
            state, update = migrate(fabric, installed, batch, everyone, tag, table.version)
    pairs = np.stack((batch.src[changed], batch.dst[changed]), axis=1)
    return state, update, entropy_table(fabric, table.version, batch, state.classes), pairs


def _after(tag: int, steps: int) -> int:
    """The tag that many steps on in the cycle 1..TAGS."""
    return (tag + steps - 1) % TAGS + 1
