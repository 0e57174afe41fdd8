"""Writes InfraGraph (YAML): HB domains as servers with their GPUs, every other node as its own device."""

import re
from collections import defaultdict
from itertools import chain, count, groupby

import numpy as np
import yaml

from railweave.framework.fabric_files.infragraph_schema import VERSION
from railweave.framework.model import Fabric, NodeGroup
from railweave.framework.model.arrays import Int64

Document = dict[str, object]
_CHOICE = {"xpu": "xpu", "nic": "nic", "port": "port", "asic": "switch", "domain": "switch"}


def text_of(fabric: Fabric) -> tuple[str, tuple[str, ...]]:
    """The text, and what it leaves out."""
    writer = _Writer(fabric)
    document: Document = {
        "name": fabric.kind,
        "description": f"exported by railweave for InfraGraph {VERSION}",
        "devices": writer.devices,
        "links": [writer.links[key] for key in writer.links],
        "instances": writer.instances,
        "edges": writer.edges,
    }
    text = yaml.dump(document, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper), sort_keys=False)
    return text, tuple(_lost(fabric, in_servers=writer.in_servers))


def _lost(fabric: Fabric, *, in_servers: bool) -> list[str]:
    second, first = fabric.link_dst[0::2], fabric.link_src[0::2]
    auto = np.where(second >= fabric.n_gpus, second, np.where(first >= fabric.n_gpus, first, -1))
    forward, backward = slice(0, None, 2), slice(1, None, 2)
    differs = any(
        np.any(column[forward] != column[backward])
        for column in (fabric.capacity_bps, fabric.latency_s, fabric.link_kind)
    )
    losses = {
        "the coordinates of GPUs": not in_servers and len(fabric.groups[0].shape) > 1,
        "names of nodes": True,
        "that the directions of a cable differ (the first one's rate, latency and kind are written)": differs,
        "which directions carry nothing": not fabric.usable.all(),
        "whose health links count for": bool(np.any(fabric.link_element != np.repeat(auto, 2))),
        "wavelengths": bool(np.any(fabric.wavelength >= 0)),
        "optical circuit switches": bool(fabric.ocs_names),
        "that links are lossless": "lossless" in fabric.capabilities,
        "other declared capabilities": bool(set(fabric.traits) - {"lossless"}),
        "names of axes": bool(fabric.axis_names),
        "options of the topology": bool(fabric.params),
    }
    return [loss for loss, true in losses.items() if true]


class _Writer:
    """Devices, instances, links and edges of a fabric."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric
        self.devices: list[Document] = []
        self.instances: list[Document] = []
        self.edges: list[Document] = []
        self.links: dict[tuple[str, float, float], Document] = {}
        self._ports: dict[int, int] = defaultdict(int)
        self._place: dict[int, tuple[str, int, int]] = {}
        self.in_servers = _in_servers(fabric)
        domain = fabric.group("domain") if self.in_servers else None
        outer = [c for c in range(fabric.n_links // 2) if not domain or not _ends_in(fabric, c, domain)]
        used = np.zeros(fabric.n_nodes, np.int64)
        for ends in (fabric.link_src[0::2], fabric.link_dst[0::2]):
            used += np.bincount(ends[outer], minlength=fabric.n_nodes)
        if domain:
            self._servers(domain, int(used[: fabric.n_gpus].max()))
        else:
            self._nodes(fabric.groups[0], ("xpu", "nic"), used)
        for group in fabric.groups[1:]:
            if group is not domain:
                self._nodes(group, ("asic", "port"), used)
        self.edges = [self._edge(cable) for cable in outer]

    def _servers(self, domain: NodeGroup, nics: int) -> None:
        """An instance for every run of domains of equal size: xpus, one switch, `nics` for each xpu."""
        fabric = self._fabric
        homes = fabric.gpu_coordinates[:, 0]
        sizes = np.bincount(homes, minlength=domain.size).tolist()
        joint = next(2 * c for c in range(fabric.n_links // 2) if _ends_in(fabric, c, domain))
        gpu = 0
        for run, (size, members) in enumerate(groupby(sizes)):
            count = len(list(members))
            link = self._link(joint, inside=True)
            edges = [_inner("xpu", "domain", str(link["name"]), "many2many")]
            edges += [_inner(f"nic[{j}::{nics}]", "xpu", "nic", "one2one") for j in range(nics)]
            name = f"server{run}" if len(set(sizes)) > 1 else "server"
            parts = {"xpu": size, "domain": 1, "nic": size * nics}
            self._device(name, count, parts, [link, {"name": "nic"}], edges)
            for server in range(count):
                for k in range(size):
                    self._place[gpu] = (name, server, k * nics)
                    gpu += 1

    def _nodes(self, group: NodeGroup, parts: tuple[str, str], used: Int64) -> None:
        ports = max(1, int(used[group.first : group.first + group.size].max()))
        edges = [_inner(parts[0], parts[1], "internal", "many2many")]
        self._device(group.kind, group.size, {parts[0]: 1, parts[1]: ports}, [{"name": "internal"}], edges)
        for i in range(group.size):
            self._place[group.first + i] = (group.kind, i, 0)

    def _device(
        self, name: str, count: int, parts: dict[str, int], links: list[Document], edges: list[Document]
    ) -> None:
        components = [
            {"name": part, "count": number, "choice": _CHOICE[part]}
            for part, number in parts.items()
            if number
        ]
        self.devices.append({"name": name, "components": components, "links": links, "edges": edges})
        self.instances.append({"name": name, "device": name, "count": count})

    def _edge(self, cable: int) -> Document:
        ends: Document = {}
        for key, node in (
            ("ep1", int(self._fabric.link_src[2 * cable])),
            ("ep2", int(self._fabric.link_dst[2 * cable])),
        ):
            instance, index, first = self._place[node]
            port = "nic" if node < self._fabric.n_gpus else "port"
            ends[key] = {
                "instance": f"{instance}[{index}]",
                "component": f"{port}[{first + self._ports[node]}]",
            }
            self._ports[node] += 1
        return {**ends, "scheme": "one2one", "link": self._link(2 * cable)["name"]}

    def _link(self, link: int, *, inside: bool = False) -> Document:
        """The entry of links with this kind, rate and latency."""
        fabric = self._fabric
        rate, latency = float(fabric.capacity_bps[link]), float(fabric.latency_s[link])
        key = (fabric.kinds[fabric.link_kind[link]], rate, latency)
        if not inside and key in self.links:
            return self.links[key]
        word = re.sub(r"[^A-Za-z0-9_-]", "-", key[0].replace("+", "-up")).removesuffix("-") or "link"
        taken = {entry["name"] for entry in self.links.values()}
        name = next(free for free in chain([word], (f"{word}-{i}" for i in count(2))) if free not in taken)
        bandwidth = {"choice": "gigabits_per_second", "gigabits_per_second": rate / 1e9}
        physical: Document = {"bandwidth": bandwidth}
        if latency:
            physical["latency"] = {"choice": "us", "us": latency * 1e6}
        entry: Document = {"name": name, "physical": physical}
        if not inside:
            self.links[key] = entry
        return entry


def _inner(ep1: str, ep2: str, link: str, scheme: str) -> Document:
    return {"ep1": {"component": ep1}, "ep2": {"component": ep2}, "scheme": scheme, "link": link}


def _ends_in(fabric: Fabric, cable: int, group: NodeGroup) -> bool:
    return bool(group.first <= fabric.link_dst[2 * cable] < group.first + group.size)


def _in_servers(fabric: Fabric) -> bool:
    """Whether every domain switch has one cable, all of one rate, from each of its own GPUs, two or more,
    and no other cable, and GPUs stand as (domain, number)."""
    domain = fabric.group("domain")
    if domain is None or "domains" not in fabric.capabilities or len(fabric.groups[0].shape) != 2:
        return False
    forward = slice(0, None, 2)
    a, b = fabric.link_src[forward], fabric.link_dst[forward]
    inside = (b >= domain.first) & (b < domain.first + domain.size)
    if np.any((a >= domain.first) & (a < domain.first + domain.size)):
        return False
    gpus = a[inside]
    if gpus.size != fabric.n_gpus or not np.array_equal(np.sort(gpus), np.arange(fabric.n_gpus)):
        return False
    places = fabric.gpu_coordinates
    starts = np.r_[True, places[1:, 0] != places[:-1, 0]]
    number = np.arange(len(places)) - np.maximum.accumulate(np.where(starts, np.arange(len(places)), 0))
    shared = [c[forward][inside] for c in (fabric.capacity_bps, fabric.latency_s, fabric.link_kind)]
    return (
        int(np.bincount(places[:, 0]).min()) > 1
        and bool(np.all(b[inside] == domain.first + places[gpus, 0]))
        and np.array_equal(number, places[:, 1])
        and bool(np.all(np.diff(places[:, 0]) >= 0))
        and all(len(np.unique(column)) == 1 for column in shared)
    )
