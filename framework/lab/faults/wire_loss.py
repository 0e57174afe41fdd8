"""Packets that a link loses, or damages so that the receiving port drops them: they leave their queue at the
link's rate and do not arrive.

With the userspace datapath the socket on which the far end receives drops them, by the filter that Open
vSwitch has there with one step more. Earlier both ends would see fewer packets and neither a loss (nftables
at the egress); an ingress rule does not stop packet sockets. The kernel datapath takes packets after the
ingress rules.
"""

import socket

from railweave.framework.processes.packet_socket import Instruction, attach_filter

PARTS = 1_000_000
"""Shares are drawn in parts of a million, as the kernel's number generator gives them."""
_WORD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
"""Instructions of classic BPF: BPF_LD, BPF_JEQ and BPF_JGE with a constant, BPF_RET (linux/bpf_common.h)."""
_ANCILLARY, _PACKET_TYPE, _RANDOM = 0xFFFFF000, 4, 56
"""SKF_AD_OFF, SKF_AD_PKTTYPE, SKF_AD_RANDOM (linux/filter.h)."""
_OUTGOING, _WHOLE = 4, 0xFFFF
"""PACKET_OUTGOING (linux/if_packet.h), and bytes of a packet that are kept: all."""


def losing(share: float) -> list[Instruction]:
    """The filter of a receiver that takes in packets, not those sent there, each with probability
    1 - share."""
    return [
        (_WORD, 0, 0, _ANCILLARY + _PACKET_TYPE),
        (_EQUAL, 2, 0, _OUTGOING),
        (_WORD, 0, 0, _ANCILLARY + _RANDOM),
        (_AT_LEAST, 1, 0, min(round(share * 2**32), 2**32 - 1)),
        (_RETURN, 0, 0, 0),
        (_RETURN, 0, 0, _WHOLE),
    ]


def lose(receiver: socket.socket, share: float) -> None:
    """Lose this share of what a socket of Open vSwitch would receive, at random; 0 ends it."""
    attach_filter(receiver, losing(share))


def ingress_script(interface: str, share: float) -> str:
    """The input of `nft -f` that makes an interface lose this share of what reaches it; 0 ends it."""
    table = "netdev lost_" + interface.replace(".", "_").replace("-", "_")
    clean = f"table {table} {{ }}\ndelete table {table}\n"
    if not share:
        return clean
    hook = f'type filter hook ingress device "{interface}" priority 0'
    rule = f"numgen random mod {PARTS} < {round(share * PARTS)} counter drop"
    return f"{clean}table {table} {{ chain in {{ {hook}\n{rule}\n}}\n}}\n"
