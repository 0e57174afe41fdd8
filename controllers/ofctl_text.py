"""Rules in the syntax of ovs-ofctl(8), for messages and for `ovs-ofctl add-flows`."""

from railweave.framework.model import CONTROLLER_PORT, Action, Rule, SetDscp
from railweave.framework.model.addressing import ipv4_text


def flow_text(rule: Rule) -> str:
    """One line, without a line end."""
    match = rule.match
    words = [
        f"cookie={rule.cookie:#x}",
        f"priority={rule.priority}",
        "ip" if match.udp_src is None else "udp",
    ]
    if match.in_port is not None:
        words.append(f"in_port={match.in_port}")
    for name, pair in (("nw_src", match.ipv4_src), ("nw_dst", match.ipv4_dst)):
        if pair is not None:
            words.append(f"{name}={ipv4_text(pair[0] & pair[1])}/{ipv4_text(pair[1])}")
    if match.ip_dscp is not None:
        words.append(f"nw_tos={match.ip_dscp << 2}")
    if match.udp_src is not None:
        words.append(f"tp_src={match.udp_src}")
    actions = [_action(action, match.in_port) for action in rule.actions] or ["drop"]
    return ",".join(words) + ",actions=" + ",".join(actions)


def _action(action: Action, in_port: int | None) -> str:
    if isinstance(action, SetDscp):
        return f"set_field:{action.value}->ip_dscp"
    if action.port == CONTROLLER_PORT:
        return "controller"
    return "in_port" if action.port == in_port else f"output:{action.port}"
