"""rules.json: the rules that the switches held at the end of a run, as ovs-ofctl(8) writes them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from railweave.framework.model import Fabric, Output, Rule, SetDscp
from railweave.framework.model.ofctl_text import flow_text

SCHEMA = {"name": "railweave.rules", "version": 1}
MOST_OF_SWITCH, MOST_RULES = 300, 20_000
"""Rules that are listed of each switch, and of all together."""
MOST_BYTES = 8_000_000
"""Bytes of a file that is read: none of a run is larger, as MOST_RULES rules take less."""


@dataclass(frozen=True, slots=True)
class SwitchRules:
    """The rules of one switch: how many are for what its host sends (`ingress`), for what comes from other
    switches (`transit`), and `drop` what has no route. `ports`: where those lead that rules send out of;
    `flows`: the rules themselves, the highest priority first, unless they are too many."""

    name: str
    ingress: int
    transit: int
    drop: int
    ports: Mapping[int, str]
    flows: tuple[str, ...]


def by_switch(fabric: Fabric, rules: Sequence[Rule]) -> list[SwitchRules]:
    """One for each node of the fabric, in their order."""
    by_node: list[list[Rule]] = [[] for _ in range(fabric.n_nodes)]
    for rule in rules:
        by_node[rule.switch].append(rule)
    leads = {
        end: fabric.link_name(link)
        for link, end in enumerate(zip(fabric.link_src.tolist(), fabric.link_port.tolist(), strict=True))
    }
    most = min(MOST_OF_SWITCH, MOST_RULES // fabric.n_nodes)
    return [
        _of_switch(fabric.node_name(node), node_rules, leads, most) for node, node_rules in enumerate(by_node)
    ]


def _of_switch(
    name: str, rules: Sequence[Rule], leads: Mapping[tuple[int, int], str], most: int
) -> SwitchRules:
    listed = sorted(rules, key=lambda rule: -rule.priority)[:most]
    drop = sum(not rule.actions for rule in rules)
    ingress = sum(any(isinstance(action, SetDscp) for action in rule.actions) for rule in rules)
    outputs = {(rule.switch, a.port) for rule in listed for a in rule.actions if isinstance(a, Output)}
    return SwitchRules(
        name, ingress, len(rules) - ingress - drop, drop,
        {port: leads.get((node, port), "its host") for node, port in sorted(outputs)},
        tuple(flow_text(rule, cookie=False) for rule in listed),
    )  # fmt: skip


def rules_json(switches: Sequence[SwitchRules]) -> str:
    """The documented file, a line for each switch."""
    lines = ",\n".join(json.dumps(asdict(switch)) for switch in switches)
    return f'{{"schema": {json.dumps(SCHEMA)}, "switches": [\n{lines}\n]}}\n'


def read_rules(path: Path, fabric: Fabric) -> tuple[list[SwitchRules] | None, str]:
    """What the file says of the fabric's switches; or None, and why it was left out ("" where there is no
    such file)."""
    from pydantic import TypeAdapter, ValidationError

    if path.exists() and not path.is_file():  # reading a pipe would wait
        return None, f"{path.name} is left out: it is no file."
    try:
        if (size := path.stat().st_size) > MOST_BYTES:
            return None, f"{path.name} is left out: it has {size / 1e6:.3g} MB."
        document = json.loads(path.read_bytes())
        switches = TypeAdapter(list[SwitchRules]).validate_python(document["switches"])
    except FileNotFoundError:
        return None, ""
    except ValidationError as error:
        first = error.errors()[0]
        return None, f"{path.name} is left out: {'.'.join(map(str, first['loc']))}: {first['msg']}."
    except (OSError, ValueError, RecursionError, LookupError, TypeError) as error:
        return None, f"{path.name} is left out: {type(error).__name__}: {error}."
    if [switch.name for switch in switches] != [fabric.node_name(node) for node in range(fabric.n_nodes)]:
        return None, f"{path.name} is left out: its switches are not those of this fabric."
    return switches, ""
