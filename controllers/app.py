"""The application inside the library: unpacks what arrives, and lets the keeper decide."""

from __future__ import annotations

import os
import struct
import time
from typing import Any

from railweave.controllers import wire
from railweave.controllers.frames import marked
from railweave.controllers.keeper import Keeper
from railweave.controllers.library import DEAD, MAIN, App, event, handles, hub, ofp_event, ofproto
from railweave.controllers.messages import Parts
from railweave.controllers.reports import PortRounds, TimedTrains
from railweave.controllers.switch import ConnectedSwitch
from railweave.controllers.words import flow_text
from railweave.framework.channel import Channel
from railweave.framework.errors import ChannelClosedError

_COOKIE = struct.Struct("!Q")
_BUNDLED_AT = ofproto.OFP_EXPERIMENTER_HEADER_SIZE + ofproto.ONF_BUNDLE_ADD_MSG_SIZE


class Command(event.EventBase):  # type: ignore[misc]
    """A message of the lab. It takes the same queue as the switches' messages, so one thread handles all."""

    def __init__(self, message: dict[str, Any]) -> None:
        super().__init__()
        self.message = message


class RuleApp(App):  # type: ignore[misc]
    """Applies rules and reports; computes nothing."""

    OFP_VERSIONS = (ofproto.OFP_VERSION,)

    def __init__(self, *args: Any, channel: Channel, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._channel = channel
        self._keeper = Keeper(self._report, time.monotonic)
        self._parts = Parts()
        self._rounds = PortRounds(self._report)
        self._trains = TimedTrains(self._report)
        self._datapaths: dict[int, Any] = {}
        self._switches: dict[int, ConnectedSwitch] = {}

    def start(self) -> Any:
        self._report("ready")
        super().start()
        return hub.spawn(self._listen)

    def _listen(self) -> None:
        """Queue the lab's messages until its end of the channel closes; then there is nothing left to do."""
        try:
            while True:
                self.send_event(self.name, Command(self._channel.receive()))
        except ChannelClosedError:
            os._exit(0)

    def _report(self, kind: str, **data: Any) -> None:
        try:
            self._channel.send({"kind": kind, **data})
        except ChannelClosedError:
            os._exit(0)

    @handles(Command)
    def on_command(self, command: Command) -> None:
        message = command.message
        match message["kind"]:
            case "set_rules":
                self._keeper.set_rules(wire.rules(message["rules"]))
            case "apply":
                self._keeper.apply(wire.update_of(message))
            case "retire":
                self._keeper.retire(message["version"])
            case "train":
                self._train(message)
            case "poll":
                asked = {dpid: switch.read_ports() for dpid, switch in self._switches.items()}
                self._rounds.begin(message["number"], asked)
            case kind:
                raise ValueError(f"{kind!r} is no command")

    @handles(ofp_event.EventOFPStateChange, MAIN, DEAD)
    def on_state(self, change: Any) -> None:
        datapath = change.datapath
        if change.state == MAIN:
            self._datapaths[datapath.id] = datapath
            self._switches[datapath.id] = ConnectedSwitch(datapath, self._parts)
            self._keeper.up(datapath.id, self._switches[datapath.id])
            # the library has just asked for all ports; what happened to them while nobody listened is in there
            dark = [port.port_no for port in datapath.ports.values() if _is_down(port)]
            self._report("carriers", dpid=datapath.id, down=dark)
        elif self._is_current(datapath):
            del self._datapaths[datapath.id]
            del self._switches[datapath.id]
            self._keeper.down(datapath.id)
            self._rounds.gone(datapath.id)

    @handles(ofp_event.EventOFPFlowStatsReply, MAIN)
    def on_flows(self, reply: Any) -> None:
        message = reply.msg
        if self._is_current(message.datapath):
            more = bool(message.flags & ofproto.OFPMPF_REPLY_MORE)
            cookies = [flow.cookie for flow in message.body]
            self._keeper.flows(message.datapath.id, message.xid, cookies, more)

    @handles(ofp_event.EventOFPPortStatsReply, MAIN)
    def on_ports(self, reply: Any) -> None:
        message = reply.msg
        if self._is_current(message.datapath):
            dpid, more = message.datapath.id, bool(message.flags & ofproto.OFPMPF_REPLY_MORE)
            rows = [
                (dpid, port.port_no, port.rx_bytes, port.tx_bytes, port.tx_packets,
                 1000 * port.duration_sec + port.duration_nsec // 1_000_000)
                for port in message.body if port.port_no <= ofproto.OFPP_MAX
            ]  # fmt: skip
            self._rounds.answer(dpid, message.xid, rows, more)

    @handles(ofp_event.EventOFPPacketIn, MAIN)
    def on_packet(self, packet: Any) -> None:
        now = time.monotonic()
        found = marked(packet.msg.data)
        if found is not None:
            self._trains.arrived(*found, now)

    @handles(ofp_event.EventOFPBarrierReply, MAIN)
    def on_barrier(self, reply: Any) -> None:
        if self._is_current(reply.msg.datapath):
            self._keeper.barrier(reply.msg.datapath.id, reply.msg.xid)

    @handles(ofp_event.EventOFPErrorMsg, MAIN)
    def on_error(self, error: Any) -> None:
        message = error.msg
        dpid = message.datapath.id
        why = _error_name(message)
        cookie = _refused_cookie(message.data)
        if cookie is not None:
            rule = self._keeper.rule(dpid, cookie)
            why += f" for {flow_text(rule) if rule else f'the flow with cookie {cookie:#x}'}"
            why += "; nothing that was sent with it is installed"
        self._report("refused", dpid=dpid, why=why)

    @handles(ofp_event.EventOFPPortStatus, MAIN)
    def on_port(self, status: Any) -> None:
        message = status.msg
        port = message.desc
        up = message.reason != ofproto.OFPPR_DELETE and not _is_down(port)
        self._report("port", dpid=message.datapath.id, port=port.port_no, up=up)

    def _is_current(self, datapath: Any) -> bool:
        """Not the remains of a connection that the switch has replaced, nor one that never said who it was."""
        return datapath.id is not None and self._datapaths.get(datapath.id) is datapath

    def _train(self, message: dict[str, Any]) -> None:
        """A train for a switch that is not there is lost: it would have measured nothing."""
        switch = self._switches.get(message["dpid"])
        if switch is not None:
            if message["timed"]:
                self._trains.sent(message["timed"], time.monotonic())
            switch.send_train(message["port"], message["packets"], message["size_bytes"], message["timed"])


def _is_down(port: Any) -> bool:
    return bool(port.config & ofproto.OFPPC_PORT_DOWN or port.state & ofproto.OFPPS_LINK_DOWN)


def _error_name(message: Any) -> str:
    if message.type == ofproto.OFPET_EXPERIMENTER:
        return f"experimenter error {message.exp_type} of {message.experimenter:#x}"
    code = ofproto.ofp_error_code_to_str(message.type, message.code)
    return f"{ofproto.ofp_error_type_to_str(message.type)}, {code}"


def _refused_cookie(data: bytes) -> int | None:
    """The cookie of the flow-mod an error quotes, alone or inside its bundle message; None: of something else."""
    begin = 0
    if len(data) > _BUNDLED_AT and data[1] == ofproto.OFPT_EXPERIMENTER:
        begin = _BUNDLED_AT
    if len(data) < begin + ofproto.OFP_HEADER_SIZE + _COOKIE.size or data[begin + 1] != ofproto.OFPT_FLOW_MOD:
        return None
    (cookie,) = _COOKIE.unpack_from(data, begin + ofproto.OFP_HEADER_SIZE)
    return int(cookie)
