"""Writes flow-mods with one library and reads them back: `python message_worker.py LIBRARY`, a JSON line per
rule.

Apart from the tests' own process, because Ryu's import changes the process it is in.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Any

os.environ["RAILWEAVE_OPENFLOW_LIBRARY"] = sys.argv[1]

from railweave.controllers import library, messages, wire
from railweave.controllers.packages import PACKAGES
from railweave.framework.model import Rule, SetDscp
from railweave.framework.model.addressing import ipv4_text

ofproto, parser = library.ofproto, library.parser
if library.NAME == "c65of":
    reader, datapath = parser, None
else:
    package = f"{PACKAGES[library.NAME]}.ofproto"
    reader = importlib.import_module(f"{package}.ofproto_parser")
    datapath = importlib.import_module(f"{package}.ofproto_protocol").ProtocolDesc(ofproto.OFP_VERSION)


def written(message: Any) -> bytes:
    message.set_xid(9)
    message.serialize()
    return bytes(message.buf)


def by_library(rule: Rule) -> Any:
    """The same flow-mod the plain way: every part made by the library, for this rule alone."""
    match, fields = rule.match, {"eth_type": 0x0800}
    for name in ("in_port", "ip_dscp", "udp_src"):
        if getattr(match, name) is not None:
            fields[name] = getattr(match, name)
    if match.udp_src is not None:
        fields["ip_proto"] = 17
    for name in ("ipv4_src", "ipv4_dst"):
        if (pair := getattr(match, name)) is not None:
            fields[name] = tuple(map(ipv4_text, pair))
    actions = [
        parser.OFPActionSetField(ip_dscp=action.value)
        if isinstance(action, SetDscp)
        else parser.OFPActionOutput(ofproto.OFPP_IN_PORT if action.port == match.in_port else action.port)
        for action in rule.actions
    ]
    apply = [parser.OFPInstructionActions(ofproto.OFPIT_APPLY_ACTIONS, actions)] if actions else []
    return parser.OFPFlowMod(
        datapath,
        cookie=rule.cookie,
        priority=rule.priority,
        match=parser.OFPMatch(**fields),
        instructions=apply,
    )


def parsed(data: bytes) -> dict[str, Any]:
    (version, kind, length, xid) = reader.header(data)
    message = reader.msg(datapath, version, kind, length, xid, data)
    actions = []
    for instruction in message.instructions:
        for action in instruction.actions:
            plain = isinstance(action, parser.OFPActionOutput)
            actions.append(["output", action.port] if plain else [action.key, action.value])
    return {
        "command": message.command,
        "cookie": message.cookie,
        "cookie_mask": message.cookie_mask,
        "priority": message.priority,
        "table": message.table_id,
        "match": dict(message.match.items()),
        "actions": actions,
        "length_is_right": length == len(data),
    }


for line in sys.stdin:
    [rule] = wire.rules([json.loads(line)])
    data = written(messages.flow_mod(datapath, rule))
    twice = written(messages.flow_mod(datapath, rule))
    deletion = written(messages.removal(datapath, rule.cookie))
    answer = {
        "same_as_library": data == written(by_library(rule)),
        "same_again": data == twice,
        "flow_mod": parsed(data),
        "removal": parsed(deletion),
    }
    print(json.dumps(answer), flush=True)
