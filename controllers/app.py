"""The application inside the OpenFlow library: decodes messages; the reconciler acts on them."""

import os
import time
from typing import Any

from railweave.controllers import wire
from railweave.controllers.connected_switch import ConnectedSwitch
from railweave.controllers.frames import marked
from railweave.controllers.library import DEAD, MAIN, App, event, handles, hub, ofp_event, ofproto
from railweave.controllers.messages import BUNDLED_AT
from railweave.controllers.reconciler import RuleReconciler
from railweave.controllers.reports import PortRounds, TimedTrains
from railweave.framework.errors import ChannelClosedError
from railweave.framework.model.events import Event, PortChanged, PortsDown, ProcessReady, RuleRefused
from railweave.framework.model.ofctl_text import flow_text
from railweave.framework.processes.channel import Channel

_ERROR_CODES = (
    "OFPHFC_", "OFPBRC_", "OFPBAC_", "OFPBIC_", "OFPBMC_", "OFPFMFC_", "OFPGMFC_", "OFPPMFC_", "OFPTMFC_",
    "OFPQOFC_", "OFPSCFC_", "OFPRRFC_", "OFPMMFC_", "OFPTFFC_",
)  # fmt: skip
"""The prefix of an error's codes, by its type. Source: OpenFlow 1.3.5, 7.4.4."""


class LabMessage(event.EventBase):  # type: ignore[misc]
    """A message of the lab. It takes the same queue as messages of switches, so one thread handles both."""

    def __init__(self, words: list[Any]) -> None:
        super().__init__()
        self.words = words


class RuleApp(App):  # type: ignore[misc]
    """Installs rules and reports events; computes nothing."""

    OFP_VERSIONS = (ofproto.OFP_VERSION,)

    def __init__(self, *args: Any, channel: Channel, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._channel = channel
        self._reconciler = RuleReconciler(self._report, time.monotonic)
        self._rounds = PortRounds(self._report)
        self._trains = TimedTrains(self._report)
        self._switches = self._reconciler.switches

    def start(self) -> Any:
        self._report(ProcessReady())
        super().start()
        return hub.spawn(self._listen)

    def _listen(self) -> None:
        """Queue the lab's messages; the process ends when the lab closes its end of the channel."""
        try:
            while True:
                self.send_event(self.name, LabMessage(self._channel.receive()))
        except ChannelClosedError:
            os._exit(0)

    def _report(self, report: Event) -> None:
        try:
            self._channel.send(report)
        except ChannelClosedError:
            os._exit(0)

    @handles(LabMessage)
    def on_command(self, command: LabMessage) -> None:
        match command.words:
            case ["set_rules", rows]:
                self._reconciler.set_rules(wire.rules(rows))
            case ["apply", version, phases]:
                self._reconciler.apply(wire.update(version, phases))
            case ["retire", version]:
                self._reconciler.retire(version)
            case ["send_train", dpid, *train]:
                self._send_train(dpid, *train)
            case ["poll_ports", number]:
                self._rounds.begin(
                    number, {dpid: switch.read_ports() for dpid, switch in self._switches.items()}
                )
            case words:
                raise ValueError(f"{words[0]!r} is not a command")

    @handles(ofp_event.EventOFPStateChange, MAIN, DEAD)
    def on_state(self, change: Any) -> None:
        datapath = change.datapath
        if change.state == MAIN:
            self._reconciler.up(datapath.id, ConnectedSwitch(datapath))
            # the library has just requested all ports, so this covers changes while no controller was
            # connected
            down = tuple(port.port_no for port in datapath.ports.values() if _is_down(port))
            self._report(PortsDown(datapath.id, down))
        elif self._is_current(datapath):
            self._reconciler.down(datapath.id)
            self._rounds.gone(datapath.id)

    @handles(ofp_event.EventOFPFlowStatsReply, MAIN)
    def on_flows(self, reply: Any) -> None:
        message = reply.msg
        if self._is_current(message.datapath):
            cookies = [flow.cookie for flow in message.body]
            self._reconciler.flows(message.datapath.id, message.xid, cookies, _more_follow(message))

    @handles(ofp_event.EventOFPPortStatsReply, MAIN)
    def on_ports(self, reply: Any) -> None:
        message = reply.msg
        if self._is_current(message.datapath):
            dpid = message.datapath.id
            rows = [
                (dpid, port.port_no, port.rx_bytes, port.tx_bytes, port.tx_packets,
                 1000 * port.duration_sec + port.duration_nsec // 1_000_000)
                for port in message.body if port.port_no <= ofproto.OFPP_MAX
            ]  # fmt: skip
            self._rounds.answer(dpid, message.xid, rows, _more_follow(message))

    @handles(ofp_event.EventOFPPacketIn, MAIN)
    def on_packet(self, packet: Any) -> None:
        if (train_end := marked(packet.msg.data)) is not None:
            self._trains.arrived(*train_end, packet.msg.arrived_s)

    @handles(ofp_event.EventOFPBarrierReply, MAIN)
    def on_barrier(self, reply: Any) -> None:
        if self._is_current(reply.msg.datapath):
            self._reconciler.barrier(reply.msg.datapath.id, reply.msg.xid)

    @handles(ofp_event.EventOFPErrorMsg, MAIN)
    def on_error(self, error: Any) -> None:
        message = error.msg
        dpid, why, cookie = message.datapath.id, _error_name(message), _refused_cookie(message.data)
        if cookie is not None:
            rule = self._reconciler.intent.by_cookie(dpid).get(cookie)
            why += f" for {flow_text(rule) if rule else f'the flow with cookie {cookie:#x}'}"
            why += "; no rule that was sent with it is installed"
        self._report(RuleRefused(dpid, why))

    @handles(ofp_event.EventOFPPortStatus, MAIN)
    def on_port(self, status: Any) -> None:
        message = status.msg
        up = message.reason != ofproto.OFPPR_DELETE and not _is_down(message.desc)
        self._report(PortChanged(message.datapath.id, message.desc.port_no, up))

    def _is_current(self, datapath: Any) -> bool:
        """False for a connection that was replaced by another, or that ended during the handshake."""
        switch = self._switches.get(datapath.id)
        return switch is not None and switch.datapath is datapath

    def _send_train(self, dpid: int, port: int, packets: int, size_bytes: int, timed: int) -> None:
        """A train for a switch that is not connected is dropped: it could not measure anything."""
        switch = self._switches.get(dpid)
        if switch is not None:
            if timed:
                self._trains.sent(timed, time.monotonic())
            switch.send_train(port, packets, size_bytes, timed)


def _is_down(port: Any) -> bool:
    return bool(port.config & ofproto.OFPPC_PORT_DOWN or port.state & ofproto.OFPPS_LINK_DOWN)


def _more_follow(reply: Any) -> bool:
    """Whether this is a part of a multipart reply, and not its last."""
    return bool(reply.flags & ofproto.OFPMPF_REPLY_MORE)


def _error_name(message: Any) -> str:
    if message.type == ofproto.OFPET_EXPERIMENTER:
        return f"experimenter error {message.exp_type} of {message.experimenter:#x}"
    codes = _ERROR_CODES[message.type] if message.type < len(_ERROR_CODES) else "code "
    return f"{_constant('OFPET_', message.type)}, {_constant(codes, message.code)}"


def _constant(prefix: str, value: int) -> str:
    """The specification's name of a value."""
    names = (name for name in dir(ofproto) if name.startswith(prefix) and getattr(ofproto, name) == value)
    return f"{next(names, prefix)}({value})"


def _refused_cookie(data: bytes) -> int | None:
    """The cookie of the flow-mod that an error quotes, alone or in a bundle; None for other messages."""
    in_bundle = len(data) > BUNDLED_AT and data[1] == ofproto.OFPT_EXPERIMENTER
    begin = BUNDLED_AT if in_bundle else 0
    at = begin + ofproto.OFP_HEADER_SIZE
    if len(data) < at + 8 or data[begin + 1] != ofproto.OFPT_FLOW_MOD:
        return None
    return int.from_bytes(data[at : at + 8], "big")
