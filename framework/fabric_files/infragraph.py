"""Reads InfraGraph (YAML or JSON): expands instances, devices and edges into components and their links."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import TypeVar

from pydantic import TypeAdapter

from railweave.framework.errors import ExperimentError, FabricError, did_you_mean
from railweave.framework.experiment.settings import Key, Settings
from railweave.framework.fabric_files.checking import validated
from railweave.framework.fabric_files.components import ComponentGraph
from railweave.framework.fabric_files.default_rates import NO_RATES, DefaultRates
from railweave.framework.fabric_files.infragraph_schema import (
    NEWER,
    Device,
    DeviceEdge,
    Infrastructure,
    InstanceEdge,
    Link,
)
from railweave.framework.fabric_files.joints import Component, Joint
from railweave.framework.model import Fabric
from railweave.framework.units import rate

TOP_KEYS = tuple(Infrastructure.model_fields)
MOST_COMPONENTS = 1 << 21
DEEPEST = 8
"""Devices inside devices."""
_PART = re.compile(r"([^\[\].]+)(?:\[([-\d:]*)\])?")
_BITS = {"gigabits_per_second": 1e9, "gigabytes_per_second": 8e9, "gigatransfers_per_second": 1e9}
_SECONDS = {"ms": 1e-3, "us": 1e-6, "ns": 1e-9}

T = TypeVar("T")
Place = tuple[tuple[str, int], ...]
"""A component inside a device: ((cx5, 0), (port, 1))."""


def read(
    settings: Settings, default_rates: DefaultRates = NO_RATES, hint: str = NEWER
) -> tuple[Fabric, tuple[str, ...]]:
    """The fabric, and what of the file it leaves out. `default_rates`: of links without a bandwidth, which
    are refused without; `hint`: about keys and words that the schema does not have. Raises
    ExperimentError that lists what is wrong with its line."""
    model = validated(settings, TypeAdapter(Infrastructure), hint)
    reader = _Reader(settings, model, default_rates)
    try:
        graph = reader.graph()
        settings.check()
        default_rates.check_known(reader.without_rate)
        fabric, lost = graph.fabric()
    except FabricError as error:
        raise ExperimentError(f"{settings.source}: {error}") from error
    used = {name: default_rates.of(name, reader.without_rate[name]) for name in reader.without_rate}
    if given := [f"{name} {rate(used[name])}" for name in sorted(graph.links) if used.get(name)]:
        lost.append(f"links without a bandwidth have the default rate: {', '.join(given)}")
    return fabric, (*reader.lost, *lost)


class _Reader:
    """The components of an infrastructure; what is wrong is reported in its line."""

    def __init__(
        self, settings: Settings, model: Infrastructure, default_rates: DefaultRates = NO_RATES
    ) -> None:
        self.settings, self._model, self._default_rates = settings, model, default_rates
        self.without_rate: dict[str, str] = {}
        for key in ("devices", "links", "instances"):
            names = [named.name for named in getattr(model, key)]
            for i, name in enumerate(names):
                if name in names[:i]:
                    settings.report((key, i, "name"), f"{name!r} is there twice. Rename one of them.")
        self._devices = {device.name: device for device in model.devices}
        self._types: dict[str, dict[Place, str]] = {}
        self.lost: list[str] = []

    def graph(self) -> ComponentGraph:
        graph, base = ComponentGraph(), dict[str, tuple[Device, int]]()
        for i, instance in enumerate(self._model.instances):
            device = self._devices.get(instance.device)
            if device is None:
                self._no_such(("instances", i, "device"), "device", instance.device, self._devices)
                continue
            base[instance.name] = device, instance.count
            types = self._components(device.name)
            if self.settings.problems:
                continue  # what is wrong may be without end
            if (len(types) * instance.count) + graph.size > MOST_COMPONENTS:
                raise FabricError(f"more than {MOST_COMPONENTS} components. Lower the counts.")
            for index in range(instance.count):
                for place, kind in types.items():
                    graph.add(Component(instance.name, index, place), kind)
            number = self._model.devices.index(device)
            joints = list(self._device_edges(number, device))
            for index in range(instance.count):
                for joint, one, other in joints:
                    graph.join(
                        Component(instance.name, index, one), Component(instance.name, index, other), joint
                    )
        links = {link.name: link for link in self._model.links}
        for i, edge in enumerate(self._model.edges):
            key = ("edges", i)
            joint = self._joint(key, edge, links)
            outer = [self._outer(key, name, getattr(edge, name), base) for name in ("ep1", "ep2")]
            for near, far in self._pairs(key, edge, *outer):
                graph.join(near, far, joint)
        return graph

    def _components(self, name: str, depth: int = 0) -> dict[Place, str]:
        """The type of every component of a device, those of devices inside it included."""
        if name not in self._types:
            types: dict[Place, str] = {}
            number = next(i for i, device in enumerate(self._model.devices) if device.name == name)
            for i, component in enumerate(self._model.devices[number].components):
                key = ("devices", number, "components", i)
                inner: Mapping[Place, str] = {(): component.choice}
                if component.choice == "device" and component.name not in self._devices:
                    self._no_such((*key, "name"), "device", component.name, self._devices)
                    continue
                if component.choice == "device" and depth == DEEPEST:
                    why = f"devices are inside one another more than {DEEPEST} times. Flatten them."
                    self.settings.report((*key, "name"), why)
                    continue
                if component.choice == "device":
                    inner = self._components(component.name, depth + 1)
                if len(types) + len(inner) * component.count > MOST_COMPONENTS:
                    raise FabricError(f"more than {MOST_COMPONENTS} components. Lower the counts.")
                for index in range(component.count):
                    types |= {((component.name, index), *place): kind for place, kind in inner.items()}
            self._types[name] = types
        return self._types[name]

    def _device_edges(
        self, number: int, device: Device, depth: int = 0
    ) -> Iterator[tuple[Joint, Place, Place]]:
        """The links inside a device, and inside the devices that it holds."""
        links = {link.name: link for link in device.links}
        for i, edge in enumerate(device.edges):
            key = ("devices", number, "edges", i)
            joint = self._joint(key, edge, links)
            ends = []
            for name in ("ep1", "ep2"):
                end = getattr(edge, name)
                path = f"{end.device}.{end.component}" if end.device else end.component
                ends.append(self._inner((*key, name, "component"), path, device))
            yield from ((joint, one, other) for one, other in self._pairs(key, edge, *ends))
        for component in device.components:
            if component.choice == "device" and component.name in self._devices and depth < DEEPEST:
                held = self._devices[component.name]
                place = self._model.devices.index(held)
                for joint, one, other in self._device_edges(place, held, depth + 1):
                    for index in range(component.count):
                        where = (component.name, index)
                        yield joint, (where, *one), (where, *other)

    def _pairs(
        self, key: Key, edge: DeviceEdge | InstanceEdge, ones: Sequence[T], others: Sequence[T]
    ) -> Iterator[tuple[T, T]]:
        pairs: Iterable[tuple[T, T]]
        match edge.scheme:
            case "one2one":
                pairs = zip(ones, others, strict=False)
            case "many2many":
                if len(ones) * len(others) > MOST_COMPONENTS:
                    raise FabricError(f"edge {key[-1]} makes more than {MOST_COMPONENTS} links.")
                pairs = product(ones, others)
            case _:
                self.settings.report(
                    (*key, "scheme"),
                    "ring is not expanded here, as in infragraph itself. Write the edges out.",
                )
                return iter(())
        return (pair for pair in pairs if pair[0] != pair[1])

    def _outer(
        self, key: Key, end: str, endpoint: object, base: Mapping[str, tuple[Device, int]]
    ) -> list[Component]:
        """The components that an edge between instances means."""
        instance, component = endpoint.instance, endpoint.component  # type: ignore[attr-defined]
        match = _PART.fullmatch(instance)
        name = match[1] if match else instance
        if match is None or name not in base:
            self._no_such((*key, end, "instance"), "instance", name, base)
            return []
        device, count = base[name]
        indices = self._indices((*key, end, "instance"), instance, match[2], count)
        places = self._inner((*key, end, "component"), component, device)
        return [Component(name, index, place) for index in indices for place in places]

    def _inner(self, key: Key, path: str, device: Device) -> list[Place]:
        """The components of a device that a path with slices means, such as `cx5[0:2].port[0]`."""
        places: list[Place] = [()]
        inside: Device | None = device
        for word in path.split("."):
            match = _PART.fullmatch(word)
            known = {c.name: c for c in inside.components} if inside else {}
            if match is None or match[1] not in known:
                self._no_such(key, "component", match[1] if match else word, known)
                return []
            component = known[match[1]]
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

    def _joint(self, key: Key, edge: DeviceEdge | InstanceEdge, links: Mapping[str, Link]) -> Joint:
        link = links.get(edge.link)
        if link is None:
            self._no_such((*key, "link"), "link", edge.link, links)
            return Joint(edge.link)
        bandwidth, latency = link.physical.bandwidth, link.physical.latency
        if bandwidth and bandwidth.choice == "gigatransfers_per_second":
            text = f"gigatransfers per second of link {link.name} are taken for gigabits"
            self.lost += [text] if text not in self.lost else []
        if bandwidth:
            bps = _BITS[bandwidth.choice] * (bandwidth.value or 0)
        else:
            self.without_rate[link.name] = link.description
            bps = self._default_rates.of(link.name, link.description)
        return Joint(
            link.name,
            bps,
            _SECONDS[latency.choice] * (latency.value or 0) if latency else 0.0,
        )

    def _no_such(self, key: Key, what: str, name: str, known: Mapping[str, object]) -> None:
        words = f"it has: {', '.join(list(known)[:12])}" if known else "there is none"
        self.settings.report(key, f"there is no {what} {name!r}; {words}.{did_you_mean(name, known)}")
