"""The part of InfraGraph's schema that describes an infrastructure, as of version 3.1.

Source: Keysight/infragraph, schema/*.yaml (unchanged in this part from 2.4 to 3.1). A document does not say
its version, so a newer schema shows in keys and words that are not here.
"""

import re
from typing import Annotated, ClassVar, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

VERSION = "3.1"
NEWER = (
    f"This release reads InfraGraph up to {VERSION}: if the file is of a newer schema, write it with an "
    "older infragraph, or install a newer railweave."
)
OLDER = (
    f"This is InfraGraph of before 1.0, and this release reads 1.0 to {VERSION}: write it anew with the "
    "`infragraph` of today."
)
OLD_TOP_KEYS = frozenset({"infrastructure", "device", "connections"})
_OLD_WORDS = re.compile(
    r"""["']?(?:choice|type)["']?: *["']?npu\b|["']?(?:connections|giga_[a-z]+_per_second)["']?:"""
)


def age_hint(text: str) -> str:
    """What to do about keys and words that the schema does not have, by those of the first versions."""
    return OLDER if _OLD_WORDS.search(text) or "choice" not in text else NEWER


E = TypeVar("E")
MOST = 1 << 20
"""Largest count of a component or instance: the most GPUs of a fabric."""
MOST_MEASURED = 1e15
"""Largest rate or latency: beyond it a unit is wrong."""


class _Object(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Named(_Object):
    name: Annotated[str, Field(pattern=r"^[\sa-zA-Z0-9-_()><\[\]]+$")]
    description: str = ""


class _Measured(_Object):
    """A number in the unit that `choice` names; `value`: in bit/s or s."""

    units: ClassVar[dict[str, float]]
    choice: str

    @model_validator(mode="after")
    def _complete(self) -> "_Measured":
        if (number := getattr(self, self.choice)) is None:
            raise ValueError(f"choice is {self.choice}, and there is no such value.")
        if not 0 < number < MOST_MEASURED:
            raise ValueError(f"{number:g} is not positive and below {MOST_MEASURED:g}.")
        return self

    @property
    def value(self) -> float:
        return self.units[self.choice] * float(getattr(self, self.choice))


class Bandwidth(_Measured):
    units = {"gigabits_per_second": 1e9, "gigabytes_per_second": 8e9, "gigatransfers_per_second": 1e9}
    choice: Literal["gigabits_per_second", "gigabytes_per_second", "gigatransfers_per_second"]
    gigabits_per_second: float | None = None
    gigabytes_per_second: float | None = None
    gigatransfers_per_second: float | None = None


class Latency(_Measured):
    units = {"ms": 1e-3, "us": 1e-6, "ns": 1e-9}
    choice: Literal["ms", "us", "ns"]
    ms: float | None = None
    us: float | None = None
    ns: float | None = None


class Physical(_Object):
    bandwidth: Bandwidth | None = None
    latency: Latency | None = None


class LinkSpec(_Named):
    physical: Physical = Physical()


class Custom(_Object):
    type: str


class Empty(_Object):
    pass


class ComponentSpec(_Named):
    count: Annotated[int, Field(ge=1, le=MOST)]
    choice: Literal["custom", "device", "cpu", "xpu", "nic", "memory", "port", "switch"]
    custom: Custom | None = None
    device: Empty | None = None
    cpu: Empty | None = None
    xpu: Empty | None = None
    nic: Empty | None = None
    memory: Empty | None = None
    port: Empty | None = None
    switch: Empty | None = None


class DeviceEndpoint(_Object):
    component: str
    device: str = ""


class InstanceEndpoint(_Object):
    instance: str
    component: str


class Edge(_Object, Generic[E]):
    ep1: E
    ep2: E
    link: str
    scheme: Literal["one2one", "many2many", "ring"] = "one2one"


class Device(_Named):
    components: tuple[ComponentSpec, ...]
    links: tuple[LinkSpec, ...] = ()
    edges: tuple[Edge[DeviceEndpoint], ...] = ()


class Instance(_Named):
    device: str
    count: Annotated[int, Field(ge=1, le=MOST)]


class Infrastructure(_Object):
    name: str = ""
    description: str = ""
    devices: tuple[Device, ...] = ()
    links: tuple[LinkSpec, ...] = ()
    instances: tuple[Instance, ...] = ()
    edges: tuple[Edge[InstanceEndpoint], ...] = ()
