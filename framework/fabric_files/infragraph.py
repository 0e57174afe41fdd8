"""Reads InfraGraph (YAML or JSON): expands instances, devices and edges into components and their links."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, TypeVar

from pydantic import TypeAdapter

from railweave.framework.errors import ExperimentError, FabricError, did_you_mean
from railweave.framework.experiment.settings import Key, LayeredSettings
from railweave.framework.fabric_files.checking import validated
from railweave.framework.fabric_files.components import ComponentGraph
from railweave.framework.fabric_files.default_rates import NO_RATES, DefaultRates
from railweave.framework.fabric_files.infragraph_schema import (
    NEWER,
    Device,
    Edge,
    Infrastructure,
    InstanceEndpoint,
    LinkSpec,
)
from railweave.framework.fabric_files.joints import Component, Joint
from railweave.framework.model import Fabric
from railweave.framework.parameters.units import rate

TOP_KEYS = tuple(Infrastructure.model_fields)
MOST_COMPONENTS = 1 << 21
"""Components of all devices at most: twice as many as a fabric has GPUs."""
DEEPEST = 8
"""Levels of devices inside devices at most: expansion is recursive, and a device may name itself."""
_PART = re.compile(r"([^\[\].]+)(?:\[([-\d:]*)\])?")

T = TypeVar("T")
Place = tuple[tuple[str, int], ...]
"""A component inside a device: ((cx5, 0), (port, 1))."""
_Inside = tuple[dict[Place, str], list[tuple[Joint, Place, Place]]]
"""The type of every component inside a device, and what joins two of them."""


def read(
    settings: LayeredSettings, default_rates: DefaultRates = NO_RATES, hint: str = NEWER
) -> tuple[Fabric, tuple[str, ...]]:
    """The fabric, and what of the file it leaves out. `default_rates`: of links without a bandwidth, which
    are refused without; `hint`: about keys and words that the schema does not have. Raises
    ExperimentError that lists what is wrong with its line."""
    model = validated(settings, TypeAdapter(Infrastructure), hint)
    reader = _InfrastructureReader(settings, model, default_rates)
    try:
        graph = reader.graph()
        settings.check()
        default_rates.check_known(reader.without_rate)
        fabric, lost = graph.fabric()
    except FabricError as error:
        raise ExperimentError(f"{settings.source}: {error}") from error
    used = {name: default_rates.of(name, reader.without_rate[name]) for name in reader.without_rate}
    if defaulted := [f"{name} {rate(used[name])}" for name in sorted(graph.links) if used.get(name)]:
        lost.append(f"links without a bandwidth have the default rate: {', '.join(defaulted)}")
    return fabric, (*reader.lost, *lost)


class _InfrastructureReader:
    """The components of an infrastructure; what is wrong is reported in its line."""

    def __init__(
        self, settings: LayeredSettings, model: Infrastructure, default_rates: DefaultRates = NO_RATES
    ) -> None:
        self.settings, self._model, self._default_rates = settings, model, default_rates
        self.without_rate: dict[str, str] = {}
        for key in ("devices", "links", "instances"):
            names = [named.name for named in getattr(model, key)]
            for i, name in enumerate(names):
                if name in names[:i]:
                    settings.report((key, i, "name"), f"{name!r} is there twice. Rename one of them.")
        self._devices = {device.name: device for device in model.devices}
        self._inside: dict[str, _Inside] = {}
        self.lost: list[str] = []

    def graph(self) -> ComponentGraph:
        graph, base = ComponentGraph(), dict[str, tuple[Device, int]]()
        for i, instance in enumerate(self._model.instances):
            device = self._devices.get(instance.device)
            if device is None:
                self._no_such(("instances", i, "device"), "device", instance.device, self._devices)
                continue
            base[instance.name] = device, instance.count
            types, joints = self._expanded(device)
            if self.settings.problems:
                continue  # what is wrong may be without end
            if (len(types) * instance.count) + graph.size > MOST_COMPONENTS:
                raise FabricError(f"more than {MOST_COMPONENTS} components. Lower the counts.")
            name = instance.name
            for index in range(instance.count):
                for place, kind in types.items():
                    graph.add(Component(name, index, place), kind)
                for joint, a, b in joints:
                    graph.join(Component(name, index, a), Component(name, index, b), joint)
        links = {link.name: link for link in self._model.links}
        for i, edge in enumerate(self._model.edges):
            ends = [self._outer(("edges", i, end), getattr(edge, end), base) for end in ("ep1", "ep2")]
            for joint, near, far in self._joined(("edges", i), edge, links, *ends):
                graph.join(near, far, joint)
        return graph

    def _expanded(self, device: Device, depth: int = 0) -> _Inside:
        """What is inside a device, and inside the devices that it holds."""
        if device.name in self._inside:
            return self._inside[device.name]
        key = ("devices", self._model.devices.index(device))
        types: dict[Place, str] = {}
        inner_joints: list[tuple[Joint, Place, Place]] = []
        for i, component in enumerate(device.components):
            inner: _Inside = {(): component.choice}, []
            if component.choice == "device":
                if component.name not in self._devices:
                    where = (*key, "components", i, "name")
                    self._no_such(where, "device", component.name, self._devices)
                    continue
                if depth == DEEPEST:
                    why = f"devices are inside one another more than {DEEPEST} times. Flatten them."
                    self.settings.report((*key, "components", i, "name"), why)
                    continue
                inner = self._expanded(self._devices[component.name], depth + 1)
            if len(types) + len(inner[0]) * component.count > MOST_COMPONENTS:
                raise FabricError(f"more than {MOST_COMPONENTS} components. Lower the counts.")
            parts = [(component.name, index) for index in range(component.count)]
            types |= {(part, *place): kind for part in parts for place, kind in inner[0].items()}
            inner_joints += [(joint, (part, *a), (part, *b)) for joint, a, b in inner[1] for part in parts]
        links = {link.name: link for link in device.links}
        joints: list[tuple[Joint, Place, Place]] = []
        for i, edge in enumerate(device.edges if not self.settings.problems else ()):
            at, ends = (*key, "edges", i), []
            for name, end in (("ep1", edge.ep1), ("ep2", edge.ep2)):
                path = f"{end.device}.{end.component}" if end.device else end.component
                ends.append(self._inner((*at, name, "component"), path, device))
            joints += self._joined(at, edge, links, *ends)
        self._inside[device.name] = types, joints + inner_joints
        return self._inside[device.name]

    def _joined(
        self, key: Key, edge: Edge[Any], links: Mapping[str, LinkSpec], ones: Sequence[T], others: Sequence[T]
    ) -> Iterator[tuple[Joint, T, T]]:
        joint = self._joint(key, edge, links)
        pairs: Iterable[tuple[T, T]] = ()
        match edge.scheme:
            case "one2one":
                pairs = zip(ones, others, strict=False)
            case "many2many":
                if len(ones) * len(others) > MOST_COMPONENTS:
                    raise FabricError(f"edge {key[-1]} makes more than {MOST_COMPONENTS} links.")
                pairs = product(ones, others)
            case _:
                why = "ring is not expanded here, as in infragraph itself. Write the edges out."
                self.settings.report((*key, "scheme"), why)
        return ((joint, a, b) for a, b in pairs if a != b)

    def _outer(
        self, key: Key, end: InstanceEndpoint, base: Mapping[str, tuple[Device, int]]
    ) -> list[Component]:
        """The components that an edge between instances means."""
        match = _PART.fullmatch(end.instance)
        name = match[1] if match else end.instance
        if match is None or name not in base:
            self._no_such((*key, "instance"), "instance", name, base)
            return []
        device, count = base[name]
        indices = self._indices((*key, "instance"), end.instance, match[2], count)
        places = self._inner((*key, "component"), end.component, device)
        return [Component(name, index, place) for index in indices for place in places]

    def _inner(self, key: Key, path: str, device: Device) -> list[Place]:
        """The components of a device that a path with slices means, such as `cx5[0:2].port[0]`."""
        places: list[Place] = [()]
        inside: Device | None = device
        for word in path.split("."):
            match = _PART.fullmatch(word)
            components = {c.name: c for c in inside.components} if inside else {}
            if match is None or match[1] not in components:
                self._no_such(key, "component", match[1] if match else word, components)
                return []
            component = components[match[1]]
            indices = self._indices(key, word, match[2], component.count)
            places = [(*place, (component.name, index)) for place in places for index in indices]
            inside = self._devices.get(component.name) if component.choice == "device" else None
        return places

    def _indices(self, key: Key, word: str, text: str | None, count: int) -> Sequence[int]:
        """What a slice of Python chooses of `count`."""
        parts = (text or ":").split(":")
        try:
            numbers = [int(part) if part else None for part in parts]
            if len(numbers) > 1:
                return range(count)[slice(*numbers)]
            return [range(count)[numbers[0] or 0]]
        except (ValueError, TypeError, IndexError):
            self.settings.report(key, f"{word!r} is none of the {count} there are, 0 to {count - 1}.")
            return []

    def _joint(self, key: Key, edge: Edge[Any], links: Mapping[str, LinkSpec]) -> Joint:
        link = links.get(edge.link)
        if link is None:
            self._no_such((*key, "link"), "link", edge.link, links)
            return Joint(edge.link)
        bandwidth, latency = link.physical.bandwidth, link.physical.latency
        if bandwidth and bandwidth.choice == "gigatransfers_per_second":
            text = f"gigatransfers per second of link {link.name} are taken for gigabits"
            self.lost += [text] if text not in self.lost else []
        if bandwidth:
            bps = bandwidth.value
        else:
            self.without_rate[link.name] = link.description
            bps = self._default_rates.of(link.name, link.description)
        return Joint(link.name, bps, latency.value if latency else 0.0)

    def _no_such(self, key: Key, kind: str, name: str, choices: Mapping[str, object]) -> None:
        words = f"it has: {', '.join(list(choices)[:12])}" if choices else "there is none"
        self.settings.report(key, f"there is no {kind} {name!r}; {words}.{did_you_mean(name, choices)}")
