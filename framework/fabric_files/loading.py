"""Opens a fabric file and finds out what it is: by its content, not by its name."""

import codecs
import gc
import re
import stat
from dataclasses import dataclass
from pathlib import Path

import yaml

from railweave.framework.errors import ExperimentError
from railweave.framework.experiment import yaml_reader
from railweave.framework.fabric_files import graphml, infragraph, like_edges, sections
from railweave.framework.fabric_files.default_rates import NO_RATES, DefaultRates
from railweave.framework.fabric_files.infragraph_schema import OLD_TOP_KEYS, OLDER, age_hint
from railweave.framework.model import Fabric

LARGEST = 36 << 20
"""Bytes of a file of any format at most; one that is larger is refused unread."""
LARGEST_INFRAGRAPH = 8 << 20
"""Characters of an InfraGraph file at most: 57,000 edges one by one, which are 114,000 links."""
LARGE = 1 << 20
"""Characters from which an InfraGraph file is first tried as JSON, or as edges that are written alike."""
MOST_EVENTS = 200_000
"""YAML events of a fabric file at most: its cables are a few long texts."""


@dataclass(frozen=True)
class FabricFile:
    """The fabric of a file, and what of the file the fabric leaves out, a sentence each."""

    fabric: Fabric
    lost: tuple[str, ...] = ()


def load(path: str | Path, default_rates: DefaultRates = NO_RATES) -> FabricFile:
    """The fabric in a file. `default_rates`: of InfraGraph links without a bandwidth.

    Raises ExperimentError with file, line and the fix; what is wrong in the first lines of a large file is
    refused without reading the rest.
    """
    was_on = gc.isenabled()
    gc.disable()  # it would take two thirds of the time: all objects stay
    try:
        return _loaded(_bytes(Path(path)), path, default_rates)
    finally:
        if was_on:
            gc.enable()


def _loaded(data: bytes, path: str | Path, default_rates: DefaultRates) -> FabricFile:
    data = data.removeprefix(codecs.BOM_UTF8)
    if data.lstrip()[:1] == b"<":
        return FabricFile(*graphml.read(data, str(path)))
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise ExperimentError(
            f"{path}: not UTF-8 text (byte {error.start}). Give a fabric file, InfraGraph YAML or GraphML."
        ) from None
    watch = _FirstLines(str(path), text)
    if LARGE < len(text) <= LARGEST_INFRAGRAPH and (alike := like_edges.settings_of(text, str(path))):
        return FabricFile(*infragraph.read(alike, default_rates))
    settings = yaml_reader.parse(text, str(path), kind="a fabric file", watch=watch.see)
    if not settings.value and not settings.problems:
        raise ExperimentError(f"{path}: empty. {_KINDS}")
    if watch.own_format:
        return FabricFile(sections.read(settings))
    return FabricFile(*infragraph.read(settings, default_rates, age_hint(text)))


FOREIGN = {
    "topology": "a containerlab topology",
    "services": "a Compose file",
    "apiVersion": "a Kubernetes object",
    "provider": "a netlab topology",
}
"""What a key at the top of a file that is neither format shows."""
_KINDS = (
    "A fabric file begins with `fabric: 1` (docs/fabrics.md); InfraGraph begins with name, devices, links, "
    "instances or edges; GraphML is XML."
)


def _bytes(path: Path) -> bytes:
    try:
        info = path.stat()
        if not stat.S_ISREG(info.st_mode):
            raise ExperimentError(f"{path} is not a file. Give the fabric file itself: file:FABRIC.yaml.")
        if info.st_size > LARGEST:
            raise ExperimentError(
                f"{path} has {info.st_size / (1 << 20):.0f} MiB; a fabric file has {LARGEST >> 20} MiB at "
                "most. Write cables by patterns, such as `g*.0 r0` (docs/fabrics.md)."
            )
        return path.read_bytes()
    except FileNotFoundError:
        raise ExperimentError(f"{path}: there is no such file. Check the path.") from None
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise ExperimentError(f"{path}: cannot be read: {why}.") from None


class _FirstLines:
    """Watches the YAML events of a file: its first key says what it is, and its other keys must fit that."""

    def __init__(self, path: str, text: str) -> None:
        self._path, self._text = path, text
        self._keys: list[str] = []
        self._is_key = True
        self._events = 0
        self.own_format = False

    def see(self, event: yaml.Event, depth: int) -> None:
        self._events += 1
        if self._events > MOST_EVENTS and self.own_format:
            raise self._refuse(
                event,
                "too many lists and keys for a fabric file. Write the cables of a section as one text below "
                "`cables: |`.",
            )
        if self._events > MOST_EVENTS and len(self._text) > like_edges.MOST_UNLIKE:
            raise self._refuse(
                event,
                f"an InfraGraph file of more than {like_edges.MOST_UNLIKE >> 20} MiB ends with its edges, as "
                "JSON or in lines that are alike but for plain words. Write it so, or use slices.",
            )
        if depth != 1 or not isinstance(event, yaml.ScalarEvent | yaml.CollectionEndEvent):
            return
        if isinstance(event, yaml.ScalarEvent) and (why := self._wrong(str(event.value))):
            raise self._refuse(event, why)
        self._is_key = not self._is_key

    def _wrong(self, word: str) -> str:
        """What is wrong with a key or value at the top; empty where nothing is."""
        if not self._is_key:
            return (
                ""
                if self._keys[-1:] != ["fabric"] or word == sections.VERSION
                else (
                    f"fabric: {word} is not a version that this release reads, which is {sections.VERSION}. "
                    f"Write `fabric: {sections.VERSION}`, or install a newer release."
                )
            )
        is_first = not self._keys
        self.own_format = word == "fabric" if is_first else self.own_format
        if word not in (sections.TOP_KEYS if self.own_format else infragraph.TOP_KEYS):
            return self._unknown(word)
        self._keys.append(word)
        if is_first and not self.own_format and len(self._text) > LARGEST_INFRAGRAPH:
            return (
                f"an InfraGraph file of {len(self._text) / (1 << 20):.0f} MiB, and "
                f"{LARGEST_INFRAGRAPH >> 20} MiB are the most. Write edges with slices, as `gpu[0:8]`."
            )
        return ""

    def _unknown(self, key: str) -> str:
        """What a key shows that the format does not have, or neither format."""
        keys = sections.TOP_KEYS if self.own_format else infragraph.TOP_KEYS
        no_key = f"there is no key {key!r}; the keys are: {', '.join(keys)}."
        if self.own_format:
            return no_key
        if key in OLD_TOP_KEYS:
            return f"{key!r} at the top. {OLDER}"
        if self._keys and key in sections.TOP_KEYS:
            return f"{no_key} If this is a fabric file of railweave, begin it with `fabric: 1`."
        if self._keys and any(word in self._text for word in ("devices:", '"devices"', "instances:")):
            return f"{no_key} {age_hint(self._text)}"
        shown = next((key for key in FOREIGN if re.search(rf"^{key}:", self._text, re.MULTILINE)), "")
        looks = f" and has {shown!r} at the top, as {FOREIGN[shown]} has" if shown else ""
        first = self._keys[0] if self._keys else key
        return f"begins with {first!r}{looks}: such a file cannot be read. {_KINDS}"

    def _refuse(self, event: yaml.Event, why: str) -> ExperimentError:
        mark = event.start_mark
        place = f"{mark.line + 1}:{mark.column + 1}: " if mark else ""
        return ExperimentError(f"{self._path}:{place}{why}")
