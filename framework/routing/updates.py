"""From one route table to the next without losing a packet or sending one by two tables.

Per-packet consistency by version tags in two phases (Reitblatt, Foster, Rexford, Schlesinger and Walker,
"Abstractions for network update", SIGCOMM 2012), but for the changed pairs only: their transit rules are
installed under a tag that no packet carries, then their ingress rules switch them over, and rules that no
pair uses any more are removed once the packets in flight have drained. Updates are retired in order, each at
the latest GUARD updates on.
"""

from dataclasses import replace

import numpy as np

from railweave.framework.model import EntropyTable, Fabric, PathBatch, RuleUpdate
from railweave.framework.model.arrays import Bool
from railweave.framework.routing.compiler import compile_batch
from railweave.framework.routing.entropy import entropy_table
from railweave.framework.routing.installed import Installed, nothing_installed
from railweave.framework.routing.migrate import migrate

TAGS = 62
"""Version tags 1..62 are assigned in turn. 0 is that of the first table, 63 that of probe trains."""

GUARD = 8
"""How many of the next tags are kept free of pairs, so that the rules of as many updates may linger."""

BLOAT = 1.5
"""How many times the rules of a fresh compile may be in place before all pairs are compiled afresh."""


def initial(fabric: Fabric, batch: PathBatch, version: int = 0) -> tuple[Installed, EntropyTable]:
    """The first state, with all its rules, for the pairs of `batch`, and what senders need; every pair has
    tag 0."""
    everyone = np.ones(len(batch.src), bool)
    state, _ = migrate(fabric, nothing_installed(fabric, batch.src, batch.dst), batch, everyone, 0, version)
    return replace(state, fresh=len(state.rules)), entropy_table(fabric, version, batch, state.classes)


def plan(
    fabric: Fabric, installed: Installed, batch: PathBatch, changed: Bool, version: int
) -> tuple[Installed, RuleUpdate, EntropyTable]:
    """The state after the update to the paths of `batch`, the update, and what senders need once it is
    applied.

    `changed` (P,): the pairs whose paths differ from the installed ones; pairs without a path are in the
    state's `unreachable`. Unchanged pairs keep their rules, but for two cases: those whose tag is next in
    turn but GUARD move along to the new tag; and if the rules came to more than BLOAT times those of a fresh
    compile, all pairs do. A fresh compile takes long, so it is only made once the rules exceed the last one's
    count by as much.
    """
    if not changed.any():
        state, update = replace(installed, version=version, batch=batch), RuleUpdate(version, (), (), ())
        return state, update, entropy_table(fabric, version, batch, state.classes)
    tag = _after(installed.last_tag, 1)
    moved = changed | (installed.tag == _after(tag, GUARD))
    state, update = migrate(fabric, installed, batch, moved, tag, version)
    if len(state.rules) > BLOAT * state.fresh:
        state = replace(state, fresh=len(compile_batch(fabric, batch)))
        if len(state.rules) > BLOAT * state.fresh and not moved.all():
            everyone = np.ones(len(moved), bool)
            state, update = migrate(fabric, installed, batch, everyone, tag, version)
            state = replace(state, fresh=len(state.rules))
    return state, update, entropy_table(fabric, version, batch, state.classes)


def _after(tag: int, steps: int) -> int:
    """The tag that many steps on in the cycle 1..TAGS."""
    return (tag + steps - 1) % TAGS + 1
