"""Checks the iCRC of every RoCE packet in a capture with scapy's own computation.

    tshark -i lo -f udp -w run.pcap &
    cargo run --release -p ringcall-sim --example loopback -- 200
    python3 check_icrc.py run.pcap

Without a capture it prints the packet over IPv6 that tests/golden.rs compares with.
Needs scapy (2.6 was used). Exits with 1 if an iCRC is wrong.
"""

import sys
from collections import Counter

from scapy.contrib.roce import BTH
from scapy.all import IPv6, Raw, UDP, rdpcap


def check(path):
    wrong, opcodes = 0, Counter()
    for packet in rdpcap(path):
        if UDP not in packet:
            continue
        # The ports may be any, so scapy is told what is in the datagram.
        udp = packet[UDP]
        datagram = bytes(udp.payload)
        udp.remove_payload()
        udp.add_payload(BTH(datagram))
        wrong += packet[BTH].compute_icrc(datagram[:-4]) != datagram[-4:]
        opcodes[f"{datagram[0]:#04x}"] += 1
    print(f"{sum(opcodes.values())} packets {dict(opcodes)}, {wrong} with a wrong iCRC")
    return wrong


if len(sys.argv) > 1:
    sys.exit(1 if check(sys.argv[1]) else 0)
packet = (
    IPv6(src="fd00::1", dst="fd00::2")
    / UDP(sport=49152, dport=4791, chksum=0)
    / BTH(opcode="UC_SEND_ONLY", padcount=3, pkey=0xFFFF, dqpn=1, psn=1)
    / Raw(b"12345\0\0\0")
)
print(bytes(packet).hex())
