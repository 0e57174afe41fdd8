"""Routes to rules: what every switch on the paths must do, in OpenFlow's words and as few entries as possible.

A packet enters at its GPU's NIC switch by port 1 with DSCP 0. The ingress rule there writes the version tag into
the DSCP (unless it is 0) and sends it on; transit rules match the tag. So tables of several versions stand side
by side and a packet meets the rules of one only. Nothing that enters by port 1 reaches a transit rule: ingress
rules stand above them, and the lowest ingress rule drops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from railweave.framework.addressing import ENTROPY_BASE, NETWORK, axis_bytes, ipv4
from railweave.framework.model import Action, Fabric, Match, Output, PathBatch, RouteTable, Rule, SetDscp
from railweave.framework.model.arrays import Bool, Int64
from railweave.framework.routing.batches import all_paths, spread
from railweave.framework.routing.compress import compress
from railweave.framework.routing.entropy import path_classes
from railweave.framework.routing.trie import ANY, Keys, RuleList, pack

HOST_PORT = 1
TRANSIT_PRIORITY = 1000
INGRESS_PRIORITY = 20000
"""Priority of the rule that drops what enters by port 1 and no other ingress rule takes."""


@dataclass(frozen=True, eq=False)
class Flows:
    """Which packets take which path: `path` (F,) into a batch, `entropy` (F,) their class. A path may have more
    than one class, while senders still use those of an earlier table."""

    path: Int64
    entropy: Int64

    @classmethod
    def of(cls, classes: Int64) -> Flows:
        """Every path under its own class."""
        return cls(np.arange(len(classes)), classes)


@dataclass(frozen=True, eq=False)
class Compiled:
    """Rules, by switch and from the highest priority down, and which of them serve which key: `key_rule` (K,)
    indexes `rules`, or is ANY where rules of lower priority already do. `key_flow` (K,): the key's flow."""

    rules: tuple[Rule, ...]
    key_rule: Int64
    key_flow: Int64


def compile_rules(fabric: Fabric, table: RouteTable, tag: int = 0) -> list[Rule]:
    """Every rule that makes the fabric forward as `table` says, under one version tag. Pure and repeatable."""
    return compile_batch(fabric, all_paths(table), tag)


def compile_batch(fabric: Fabric, batch: PathBatch, tag: int = 0) -> list[Rule]:
    """As compile_rules, for the paths of every pair."""
    flows = Flows.of(path_classes(fabric, batch))
    keys = ingress_keys(fabric, batch, flows, tag)
    transit, ingress = transit_rules(fabric, batch, flows, tag), ingress_rules(fabric, keys)
    return [*base_rules(fabric), *transit.rules, *ingress.rules]


def base_rules(fabric: Fabric) -> list[Rule]:
    """One rule per NIC switch: what its host sends without a route is dropped, not passed on to transit rules."""
    return [Rule(gpu, INGRESS_PRIORITY, Match(in_port=HOST_PORT), ()) for gpu in range(fabric.n_gpus)]


def transit_rules(fabric: Fabric, batch: PathBatch, flows: Flows, tag: int) -> Compiled:
    """The rules behind the first switch for packets that carry `tag`; right only for the flows given."""
    n_hops = np.diff(batch.hop_start)[flows.path]
    hop = spread(batch.hop_start[flows.path], n_hops)
    flow = np.repeat(np.arange(len(flows.path)), n_hops)
    link = batch.links[hop]
    onward = np.full(len(hop), HOST_PORT, np.int64)
    inner = np.flatnonzero(np.diff(flow) == 0)
    onward[inner] = fabric.link_port[link[inner + 1]]
    in_port = fabric.link_port[link ^ 1]
    pair = batch.path_pair[flows.path][flow]
    where = fabric.gpu_coordinates
    ends = (where[batch.dst[pair]], where[batch.src[pair]])
    fields = tuple(np.column_stack((in_port, *ends)).astype(np.int64).T.copy())
    switch, entropy = fabric.link_dst[link].astype(np.int64), flows.entropy[flow]
    keys = Keys(switch, fields, entropy, onward, np.zeros(len(hop), bool))
    found = compress(keys, *_transit_orders(where.shape[1]))
    writer = _Writer(fabric)
    return Compiled(
        tuple(
            writer.rule(found, r, TRANSIT_PRIORITY + int(found.level[r]), _forward(int(found.action[r])), tag)
            for r in range(len(found.switch))
        ),
        found.key_rule,
        flow,
    )


@dataclass(frozen=True, eq=False)
class IngressKeys:
    """What hosts send: `nic` (K,), `dst` (K,), `entropy` (K,) class; it must get `tag` (K,) and leave by `port`
    (K,), 0 to be dropped. `free` (K,): the rules in place already do so. `pair` (K,): position in the batch."""

    nic: Int64
    dst: Int64
    entropy: Int64
    tag: Int64
    port: Int64
    free: Bool
    pair: Int64


def ingress_keys(fabric: Fabric, batch: PathBatch, flows: Flows, tag: int | Int64) -> IngressKeys:
    """A key per flow, and one per pair without a path: dropped, as the base rule does by itself.

    `tag`: one for all, or (P,) per pair.
    """
    cut = np.flatnonzero(np.diff(batch.pair_start) == 0)
    flow_pair = batch.path_pair[flows.path]
    pair = np.concatenate((flow_pair, cut))
    none = np.zeros(len(cut), np.int64)
    port = fabric.link_port[batch.links[batch.hop_start[flows.path]]].astype(np.int64)
    tags = np.broadcast_to(np.asarray(tag, np.int64), len(batch.src))[flow_pair]
    return IngressKeys(
        batch.src[pair],
        batch.dst[pair],
        np.concatenate((flows.entropy, none)),
        np.concatenate((tags, none)),
        np.concatenate((port, none)),
        np.arange(len(pair)) >= len(flow_pair),
        pair,
    )


def ingress_rules(fabric: Fabric, keys: IngressKeys, above: Int64 | None = None) -> Compiled:
    """The rules at the sources' NIC switches; `key_flow` is the key's position.

    `above` (n_gpus,): the highest priority in use there by rules of port 1 (the base rule's by default). All new
    rules stand above it, and come from the highest down: installed in this order, one by one, a key has its old
    action until the very rule is there that gives it its new one.
    """
    ports, action = np.unique(pack((keys.port, keys.tag)), return_inverse=True)
    example = np.zeros(len(ports), np.int64)
    example[action] = np.arange(len(action))
    columns = tuple(fabric.gpu_coordinates[keys.dst].astype(np.int64).T.copy())
    found = compress(
        Keys(keys.nic, columns, keys.entropy, action, keys.free), list(permutations(range(len(columns))))
    )
    base = np.full(fabric.n_gpus, INGRESS_PRIORITY) if above is None else above
    priority = base[found.switch] + 1 + _rank_levels(found)
    writer = _Writer(fabric, ingress=True)
    rules = []
    for r in range(len(found.switch)):
        key = example[found.action[r]]
        rules.append(writer.rule(found, r, int(priority[r]), _send(int(keys.tag[key]), int(keys.port[key]))))
    return Compiled(tuple(rules), found.key_rule, np.arange(len(action)))


def rule_counts(fabric: Fabric, rules: Sequence[Rule]) -> dict[str, tuple[float, int]]:
    """Rules per switch: (mean, most) for each kind of node."""
    count = np.bincount([rule.switch for rule in rules], minlength=fabric.n_nodes)
    spans = ((g.kind, count[g.first : g.first + g.size]) for g in fabric.groups)
    return {kind: (float(part.mean()), int(part.max())) for kind, part in spans}


def _transit_orders(axes: int) -> tuple[list[tuple[int, ...]], tuple[int, ...]]:
    """Orders of the fields (0 the port of entry, 1.. the destination's axes) to try, and the further fields that
    only some switches need, the source's axes: the destination's axes in every order, the port nowhere or
    anywhere among them."""
    dst = list(permutations(range(1, axes + 1)))
    with_port = [(*p[:i], 0, *p[i:]) for p in dst for i in range(axes + 1)]
    return dst + with_port, tuple(range(axes + 1, 2 * axes + 1))


def _rank_levels(found: RuleList) -> Int64:
    """(R,): each rule's level, counted among the levels that its switch really uses."""
    used, inverse = np.unique(pack((found.switch, found.level)), return_inverse=True)
    switch = np.zeros(len(used), np.int64)
    switch[inverse] = found.switch
    return (np.arange(len(used)) - np.searchsorted(switch, switch))[inverse]


def _forward(port: int) -> tuple[Action, ...]:
    return (Output(port),)


def _send(tag: int, port: int) -> tuple[Action, ...]:
    if port == 0:
        return ()
    return (SetDscp(tag), Output(port)) if tag else (Output(port),)


class _Writer:
    """Writes rows of a rule list as rules."""

    def __init__(self, fabric: Fabric, *, ingress: bool = False) -> None:
        self._fabric, self._ingress = fabric, ingress
        self._shape = fabric.groups[0].shape
        self._bytes = axis_bytes(fabric)

    def rule(
        self, found: RuleList, r: int, priority: int, actions: tuple[Action, ...], tag: int | None = None
    ) -> Rule:
        fields = [int(v) for v in found.fields[r]]
        entropy = int(found.entropy[r])
        udp_src = None if entropy == ANY else ENTROPY_BASE + entropy
        axes = len(self._shape)
        if self._ingress:
            match = Match(HOST_PORT, None, self._address(fields), None, udp_src)
        else:
            in_port = None if fields[0] == ANY else fields[0]
            dst, src = self._address(fields[1 : axes + 1]), self._address(fields[axes + 1 :])
            match = Match(in_port, src, dst, tag, udp_src)
        return Rule(int(found.switch[r]), priority, match, actions)

    def _address(self, coordinates: list[int]) -> tuple[int, int] | None:
        """Address and mask that match these coordinates; None if all are ANY."""
        if all(c == ANY for c in coordinates):
            return None
        if ANY not in coordinates:
            return ipv4(self._fabric, int(np.ravel_multi_index(coordinates, self._shape))), 0xFFFFFFFF
        value, mask = NETWORK, 0xFF << 24
        for coordinate, (shift, bits) in zip(coordinates, self._bytes, strict=True):
            if coordinate != ANY:
                value, mask = value | coordinate << shift, mask | bits << shift
        return value, mask
