"""Rules in the syntax of ovs-ofctl(8), for messages and for `ovs-ofctl add-flows`."""

from railweave.framework.model import CONTROLLER_PORT, Action, Rule, SetDscp
from railweave.framework.model.addressing import ipv4_text


def flow_text(rule: Rule, *, cookie: bool = True) -> str:
    """One line, without a line end; `cookie`: whether it says the rule's.

    >>> from railweave.framework.model import Match, Output
    >>> to_rail = Rule(4, 1000, Match(ipv4_dst=(0x0A010001, 0xFFFF00FF)), (Output(2),))
    >>> flow_text(to_rail, cookie=False)
    'priority=1000,ip,nw_dst=10.1.0.1/255.255.0.255,actions=output:2'
    """
    match = rule.match
    fields = {
        "in_port": match.in_port,
        "nw_src": _masked(match.ipv4_src),
        "nw_dst": _masked(match.ipv4_dst),
        "nw_tos": None if match.ip_dscp is None else match.ip_dscp << 2,
        "tp_src": match.udp_src,
    }
    protocol = "ip" if match.udp_src is None else "udp"
    words = [f"cookie={rule.cookie:#x}"] * cookie + [f"priority={rule.priority}", protocol]
    words += [f"{name}={value}" for name, value in fields.items() if value is not None]
    actions = [_action(action, match.in_port) for action in rule.actions] or ["drop"]
    return ",".join(words) + ",actions=" + ",".join(actions)


def _masked(pair: tuple[int, int] | None) -> str | None:
    return None if pair is None else f"{ipv4_text(pair[0] & pair[1])}/{ipv4_text(pair[1])}"


def _action(action: Action, in_port: int | None) -> str:
    if isinstance(action, SetDscp):
        return f"set_field:{action.value}->ip_dscp"
    if action.port == CONTROLLER_PORT:
        return "controller"
    return "in_port" if action.port == in_port else f"output:{action.port}"
