"""A network between this machine and one in a network namespace: 1 Gbit/s, 1 ms for a round trip.

Both ends are TUN devices. A thread for each direction carries the packets and delays them, since
kernels may lack the queueing discipline netem; `tc tbf` limits the rate. Needs root.
"""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from queue import SimpleQueue

from tests.ports import PORTS_PER_RANGE, port

DELAY_SECONDS = 0.0005
RATE = ("rate", "1gbit", "burst", "256kb", "latency", "50ms")
TUNSETIFF, IFF_TUN, IFF_NO_PI, IFF_VNET_HDR = 0x400454CA, 1, 0x1000, 0x4000
TUNSETOFFLOAD, TUN_F_CSUM, TUN_F_TSO4 = 0x400454D0, 1, 2
"""linux/if_tun.h. Packets of up to 64 KiB pass unsegmented, or the threads would limit the rate."""
MAX_PACKET_BYTES = (1 << 16) + 64


def addresses() -> tuple[str, str]:
    """Return the addresses of this machine and the other one, from those for tests of networks."""
    number = port(0) // PORTS_PER_RANGE
    return f"198.18.{number}.1", f"198.18.{number}.2"


def open_device(name: str) -> int:
    """Make a TUN device, which lasts until the descriptor is closed. Return the descriptor."""
    descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC)
    flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR
    fcntl.ioctl(descriptor, TUNSETIFF, struct.pack("16sH22x", name.encode(), flags))
    fcntl.ioctl(descriptor, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4)
    return descriptor


def read_packets(source: int, sent: SimpleQueue[tuple[float, bytes]]) -> None:
    """Read packets until the device ends, and queue them with the time of their delivery."""
    with suppress(OSError):
        while packet := os.read(source, MAX_PACKET_BYTES):
            sent.put((time.monotonic() + DELAY_SECONDS, packet))
    sent.put((0.0, b""))


def deliver_packets(sent: SimpleQueue[tuple[float, bytes]], target: int) -> None:
    while True:
        due, packet = sent.get()
        if not packet:
            return
        time.sleep(max(0.0, due - time.monotonic()))
        with suppress(OSError):  # the other device is down: the packet is lost
            os.write(target, packet)


def carry(source: int, target: int) -> None:
    sent: SimpleQueue[tuple[float, bytes]] = SimpleQueue()
    for work in ((read_packets, source, sent), (deliver_packets, sent, target)):
        threading.Thread(target=work[0], args=work[1:], daemon=True).start()


def configure(device: str, own: str, peer: str, *namespace: str) -> None:
    for line in (
        ("ip", "address", "add", own, "peer", peer, "dev", device),
        ("ip", "link", "set", device, "up"),
        ("tc", "qdisc", "add", "dev", device, "root", "tbf", *RATE),
    ):
        subprocess.run([*namespace, *line], check=True)


@contextmanager
def network_to(pid: int) -> Iterator[str]:
    """Connect this machine with the network namespace of a process. Return the own address."""
    here, there = addresses()
    names = f"bb{pid}", f"bbt{pid}"
    near, far = (open_device(name) for name in names)
    inside = ("nsenter", "-t", str(pid), "-n")
    try:
        subprocess.run(["ip", "link", "set", names[1], "netns", str(pid)], check=True)
        subprocess.run([*inside, "ip", "link", "set", "lo", "up"], check=True)
        configure(names[0], here, there)
        configure(names[1], there, here, *inside)
        carry(near, far)
        carry(far, near)
        yield here
    finally:
        for name, namespace in ((names[0], ()), (names[1], inside)):
            subprocess.run([*namespace, "ip", "link", "delete", name], check=False)
        os.close(near)
        os.close(far)
