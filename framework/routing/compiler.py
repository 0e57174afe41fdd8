"""Routes to rules: what every switch on the paths must do, in OpenFlow's terms and as few entries as
possible.

A packet enters at its GPU's NIC switch by port 1. The ingress rule there writes the version tag into the
DSCP, whatever the sender wrote there, and forwards it; transit rules match the tag. So rules of several
versions coexist, and a packet meets those of one only. Nothing that enters by port 1 reaches a transit rule:
ingress rules have higher priority, and the lowest ingress rule drops.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Self

import numpy as np

from railweave.framework.model import Action, Fabric, Match, Output, PathBatch, Rule, SetDscp
from railweave.framework.model.addressing import ENTROPY_BASE, NETWORK, axis_bytes, host_byte
from railweave.framework.model.arrays import Bool, Int64
from railweave.framework.routing.batches import spread
from railweave.framework.routing.compress import compress
from railweave.framework.routing.entropy import path_classes
from railweave.framework.routing.trie import ANY, Keys, RuleList, pack

HOST_PORT = 1
"""The port of a NIC switch that leads to its host."""
TRANSIT_PRIORITY = 1000
"""Priority of rules for packets on their way; more specific ones have a higher one."""
INGRESS_PRIORITY = 20000
"""Priority of the rule that drops what enters by port 1 and no other ingress rule takes."""


@dataclass(frozen=True, eq=False)
class FlowClasses:
    """What a batch's packets do: those of `pair` (F,) with the class `entropy` (F,) take `path` (F,), or are
    dropped where it is ANY. A path may have more than one class, while senders still use those of an earlier
    table."""

    pair: Int64
    path: Int64
    entropy: Int64

    @classmethod
    def of(cls, batch: PathBatch, classes: Int64) -> Self:
        """Every path under its own class; class 0 of a pair without a path is dropped."""
        lost = np.flatnonzero(np.diff(batch.pair_start) == 0)
        return cls(
            np.concatenate((batch.path_pair, lost)),
            np.concatenate((np.arange(len(classes)), np.full(len(lost), ANY))),
            np.concatenate((classes, np.zeros(len(lost), np.int64))),
        )


@dataclass(frozen=True, eq=False)
class Compiled:
    """Rules, by switch and from the highest priority down, and which of them serve which key: `key_rule` (K,)
    indexes `rules`, or is ANY where rules of lower priority already do. `key_flow` (K,): the key's flow."""

    rules: tuple[Rule, ...]
    key_rule: Int64
    key_flow: Int64


def compile_batch(fabric: Fabric, batch: PathBatch, tag: int = 0) -> list[Rule]:
    """Every rule that makes the fabric forward the pairs of `batch` on its paths, under one version tag. Pure
    and repeatable."""
    flows = FlowClasses.of(batch, path_classes(fabric, batch))
    transit = transit_rules(fabric, batch, flows, tag)
    tags, above = np.full(len(batch.src), tag), np.full(fabric.n_gpus, INGRESS_PRIORITY)
    ingress = ingress_rules(fabric, batch, flows, tags, flows.path == ANY, above)
    return [*base_rules(fabric), *transit.rules, *ingress.rules]


def base_rules(fabric: Fabric) -> list[Rule]:
    """One rule per NIC switch: what its host sends without a route is dropped, not passed on to transit
    rules."""
    return [Rule(gpu, INGRESS_PRIORITY, Match(in_port=HOST_PORT), ()) for gpu in range(fabric.n_gpus)]


def transit_rules(fabric: Fabric, batch: PathBatch, flows: FlowClasses, tag: int) -> Compiled:
    """The rules behind the first switch for packets that carry `tag`; valid for these flows only."""
    routed = np.flatnonzero(flows.path != ANY)
    path = flows.path[routed]
    n_hops = np.diff(batch.hop_start)[path]
    link = batch.links[spread(batch.hop_start[path], n_hops)]
    flow = np.repeat(routed, n_hops)
    onward = np.full(len(link), HOST_PORT, np.int64)
    inner = np.flatnonzero(np.diff(flow) == 0)
    onward[inner] = fabric.link_port[link[inner + 1]]
    where, pair = fabric.gpu_coordinates, flows.pair[flow]
    fields = np.column_stack((fabric.link_port[link ^ 1], where[batch.dst[pair]], where[batch.src[pair]]))
    columns = tuple(fields.astype(np.int64).T.copy())
    switch = fabric.link_dst[link].astype(np.int64)
    keys = Keys(switch, columns, flows.entropy[flow], onward, np.zeros(len(link), bool))
    rule_list = compress(keys, *_transit_orders(where.shape[1]))
    actions = [(Output(port),) for port in rule_list.action.tolist()]
    rules = _written(fabric, rule_list, rule_list.fields, TRANSIT_PRIORITY + rule_list.level, actions, tag)
    return Compiled(rules, rule_list.key_rule, flow)


def ingress_rules(
    fabric: Fabric, batch: PathBatch, flows: FlowClasses, tag: Int64, free: Bool, above: Int64
) -> Compiled:
    """The rules at the sources' NIC switches, which write the version tags `tag` (P,) of the pairs.

    `free` (F,): the rules in place already serve the flow, as the base rule does with one to be dropped.
    `above` (n_gpus,): the highest priority in use there by rules of port 1, the base rule's at least. All
    new rules have higher priorities, and are listed from the highest down: installed one by one in this
    order, a key keeps its old action until the very rule is installed that sets its new one.
    """
    routed = np.flatnonzero(flows.path != ANY)
    port, tags = np.zeros((2, len(flows.path)), np.int64)
    port[routed] = fabric.link_port[batch.links[batch.hop_start[flows.path[routed]]]]
    tags[routed] = tag[flows.pair[routed]]
    _, example, action = np.unique(pack((port, tags)), return_index=True, return_inverse=True)
    columns = tuple(fabric.gpu_coordinates[batch.dst[flows.pair]].astype(np.int64).T.copy())
    keys = Keys(batch.src[flows.pair], columns, flows.entropy, action, free)
    rule_list = compress(keys, list(permutations(range(len(columns)))))
    actions = [_send(int(tags[key]), int(port[key])) for key in example[rule_list.action]]
    fields = np.full((len(actions), 1 + 2 * len(columns)), ANY)
    fields[:, 0], fields[:, 1 : 1 + len(columns)] = HOST_PORT, rule_list.fields
    priority = above[rule_list.switch] + 1 + _rank_levels(rule_list)
    rules = _written(fabric, rule_list, fields, priority, actions)
    return Compiled(rules, rule_list.key_rule, np.arange(len(action)))


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


def _send(tag: int, port: int) -> tuple[Action, ...]:
    return () if port == 0 else (SetDscp(tag), Output(port))


def _written(
    fabric: Fabric,
    rule_list: RuleList,
    fields: Int64,
    priority: Int64,
    actions: Sequence[tuple[Action, ...]],
    tag: int | None = None,
) -> tuple[Rule, ...]:
    """The rules of the list with these priorities (R,) and actions. `fields` (R, 1 + 2 axes): the port of
    entry, the destination's coordinates, the source's; a value or ANY."""
    bytes_, host = axis_bytes(fabric), host_byte(fabric)

    def address(coordinates: list[int]) -> tuple[int, int] | None:
        """Address and mask that match these coordinates; None if all are ANY."""
        if all(c == ANY for c in coordinates):
            return None
        value, mask = NETWORK, 0xFF << 24
        for coordinate, (shift, bits) in zip(coordinates, bytes_, strict=True):
            if coordinate != ANY:
                value, mask = value | coordinate << shift, mask | bits << shift
        return (value, mask) if ANY in coordinates else (value | host, 0xFFFFFFFF)

    rules: list[Rule] = []
    columns = (x.tolist() for x in (rule_list.switch, priority, fields, rule_list.entropy))
    for switch, rank, (port, *ends), entropy, action in zip(*columns, actions, strict=True):
        in_port, udp_src = None if port == ANY else port, None if entropy == ANY else ENTROPY_BASE + entropy
        dst, src = address(ends[: len(bytes_)]), address(ends[len(bytes_) :])
        rules.append(Rule(switch, rank, Match(in_port, src, dst, tag, udp_src), action))
    return tuple(rules)
