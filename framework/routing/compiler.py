"""Routes to rules: what every switch on the paths must do, in OpenFlow's terms and as few entries as
possible.

A packet enters at its GPU's NIC switch by port 1 with DSCP 0. The ingress rule there writes the version tag
into the DSCP (unless it is 0) and forwards it; transit rules match the tag. So rules of several versions
coexist, and a packet meets those of one only. Nothing that enters by port 1 reaches a transit rule: ingress
rules have higher priority, and the lowest ingress rule drops.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations

import numpy as np

from railweave.framework.model import Action, Fabric, Match, Output, PathBatch, RouteTable, Rule, SetDscp
from railweave.framework.model.addressing import ENTROPY_BASE, NETWORK, axis_bytes, host_byte
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
    """Which packets take which path: `path` (F,) into a batch, `entropy` (F,) their class. A path may have
    more than one class, while senders still use those of an earlier table."""

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
    """Every rule that makes the fabric forward as `table` says, under one version tag. Pure and
    repeatable."""
    return compile_batch(fabric, all_paths(table), tag)


def compile_batch(fabric: Fabric, batch: PathBatch, tag: int = 0) -> list[Rule]:
    """As compile_rules, for the paths of every pair."""
    flows = Flows.of(path_classes(fabric, batch))
    keys = ingress_keys(fabric, batch, flows, tag)
    transit, ingress = transit_rules(fabric, batch, flows, tag), ingress_rules(fabric, keys)
    return [*base_rules(fabric), *transit.rules, *ingress.rules]


def base_rules(fabric: Fabric) -> list[Rule]:
    """One rule per NIC switch: what its host sends without a route is dropped, not passed on to transit
    rules."""
    return [Rule(gpu, INGRESS_PRIORITY, Match(in_port=HOST_PORT), ()) for gpu in range(fabric.n_gpus)]


def transit_rules(fabric: Fabric, batch: PathBatch, flows: Flows, tag: int) -> Compiled:
    """The rules behind the first switch for packets that carry `tag`; valid for these flows only."""
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
    rule_list = compress(keys, *_transit_orders(where.shape[1]))
    writer = _Writer(fabric)
    return Compiled(
        tuple(
            writer.rule(
                rule_list,
                r,
                TRANSIT_PRIORITY + int(rule_list.level[r]),
                _forward(int(rule_list.action[r])),
                tag,
            )
            for r in range(len(rule_list.switch))
        ),
        rule_list.key_rule,
        flow,
    )


@dataclass(frozen=True, eq=False)
class IngressKeys:
    """What hosts send: `nic` (K,), `dst` (K,), `entropy` (K,) class; it must get `tag` (K,) and leave by
    `port` (K,), 0 to be dropped. `free` (K,): the rules in place already do so. `pair` (K,): position in the
    batch."""

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
    lost = np.flatnonzero(np.diff(batch.pair_start) == 0)
    flow_pair = batch.path_pair[flows.path]
    pair = np.concatenate((flow_pair, lost))
    none = np.zeros(len(lost), np.int64)
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

    `above` (n_gpus,): the highest priority in use there by rules of port 1 (the base rule's by default). All
    new rules have higher priorities, and are listed from the highest down: installed one by one in this
    order, a key keeps its old action until the very rule is installed that sets its new one.
    """
    ports, action = np.unique(pack((keys.port, keys.tag)), return_inverse=True)
    example = np.zeros(len(ports), np.int64)
    example[action] = np.arange(len(action))
    columns = tuple(fabric.gpu_coordinates[keys.dst].astype(np.int64).T.copy())
    rule_list = compress(
        Keys(keys.nic, columns, keys.entropy, action, keys.free), list(permutations(range(len(columns))))
    )
    base = np.full(fabric.n_gpus, INGRESS_PRIORITY) if above is None else above
    priority = base[rule_list.switch] + 1 + _rank_levels(rule_list)
    writer = _Writer(fabric, ingress=True)
    rules = []
    for r in range(len(rule_list.switch)):
        key = example[rule_list.action[r]]
        rules.append(
            writer.rule(rule_list, r, int(priority[r]), _send(int(keys.tag[key]), int(keys.port[key])))
        )
    return Compiled(tuple(rules), rule_list.key_rule, np.arange(len(action)))


def _transit_orders(axes: int) -> tuple[list[tuple[int, ...]], tuple[int, ...]]:
    """Orders of the fields (0 the port of entry, 1.. the destination's axes) to try, and the further fields
    that only some switches need, the source's axes: the destination's axes in every order, the port nowhere
    or anywhere among them."""
    dst = list(permutations(range(1, axes + 1)))
    with_port = [(*p[:i], 0, *p[i:]) for p in dst for i in range(axes + 1)]
    return dst + with_port, tuple(range(axes + 1, 2 * axes + 1))


def _rank_levels(rule_list: RuleList) -> Int64:
    """(R,): each rule's level, counted among the levels that its switch really uses."""
    used, inverse = np.unique(pack((rule_list.switch, rule_list.level)), return_inverse=True)
    switch = np.zeros(len(used), np.int64)
    switch[inverse] = rule_list.switch
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
        self._ingress = ingress
        self._bytes, self._host = axis_bytes(fabric), host_byte(fabric)

    def rule(
        self, rule_list: RuleList, r: int, priority: int, actions: tuple[Action, ...], tag: int | None = None
    ) -> Rule:
        fields = [int(v) for v in rule_list.fields[r]]
        entropy = int(rule_list.entropy[r])
        udp_src = None if entropy == ANY else ENTROPY_BASE + entropy
        axes = len(self._bytes)
        if self._ingress:
            match = Match(HOST_PORT, None, self._address(fields), None, udp_src)
        else:
            in_port = None if fields[0] == ANY else fields[0]
            dst, src = self._address(fields[1 : axes + 1]), self._address(fields[axes + 1 :])
            match = Match(in_port, src, dst, tag, udp_src)
        return Rule(int(rule_list.switch[r]), priority, match, actions)

    def _address(self, coordinates: list[int]) -> tuple[int, int] | None:
        """Address and mask that match these coordinates; None if all are ANY."""
        if all(c == ANY for c in coordinates):
            return None
        value, mask = NETWORK, 0xFF << 24
        for coordinate, (shift, bits) in zip(coordinates, self._bytes, strict=True):
            if coordinate != ANY:
                value, mask = value | coordinate << shift, mask | bits << shift
        return (value, mask) if ANY in coordinates else (value | self._host, 0xFFFFFFFF)
