"""`./bench remoting`: driver calls remoted over TCP and TLS, beside the driver itself and the raw floor, interleaved in one run."""

from __future__ import annotations

import argparse
import json
import os
import platform
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from deploy.supervisor import BUILD
from tests.remoting.node import LocalNode, direct_environment

REPETITIONS = 5
PINGS = 2000
PROGRAM = BUILD / "bench" / "driver_calls"
TARGETS = {"launch_enqueue_p50_ns": 200.0, "launch_enqueue_p99_ns": 1000.0}
SYNCHRONISE_ABOVE_PING_US = 15.0


def tcp_ping_us() -> float:
    """Median round trip of 64 bytes over loopback, both ends blocking: what no remoting can be faster than."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def echo() -> None:
            peer, _ = server.accept()
            with peer:
                peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                while data := peer.recv(64):
                    peer.sendall(data)

        threading.Thread(target=echo, daemon=True).start()
        with socket.create_connection(server.getsockname()) as s:
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            times = []
            for _ in range(PINGS):
                begun = time.perf_counter_ns()
                s.sendall(bytes(64))
                s.recv(64)
                times.append(time.perf_counter_ns() - begun)
    return statistics.median(times) / 1e3


def measure(env: dict[str, str]) -> dict[str, float]:
    out = subprocess.run([PROGRAM], env=env, capture_output=True, text=True, check=True, timeout=300).stdout
    values: dict[str, float] = json.loads(out)
    return values


def run() -> dict[str, object]:
    node, folder = LocalNode(), Path(tempfile.mkdtemp(prefix="busbar-bench-"))
    direct, remoted, pings = [], [], []
    try:
        for _ in range(REPETITIONS):
            direct.append(measure(direct_environment(folder)))
            remoted.append(measure(node.remote_environment()))
            pings.append(tcp_ping_us())
    finally:
        node.stop()
    results = [row(name, [d[name] for d in direct], [r[name] for r in remoted]) for name in remoted[0]]
    ping = statistics.median(pings)
    above = statistics.median(r["launch_and_synchronise_p50_us"] for r in remoted) - ping
    results.append({"name": "tcp_ping_us", "value": round(ping, 2), "unit": "us"})
    results.append(
        {
            "name": "synchronise_above_ping_us",
            "value": round(above, 2),
            "unit": "us",
            "target": SYNCHRONISE_ABOVE_PING_US,
            "met": above <= SYNCHRONISE_ABOVE_PING_US,
        }
    )
    return {"machine": {"processor": platform.processor() or platform.machine(), "cores": os.cpu_count(), "driver": "software GPU"}, "results": results}


def row(name: str, direct: list[float], remoted: list[float]) -> dict[str, object]:
    value, beside = statistics.median(remoted), statistics.median(direct)
    ratio = round(value / beside, 2) if beside else None
    out: dict[str, object] = {"name": name, "value": value, "unit": name.rsplit("_", 1)[-1], "direct": beside, "ratio": ratio}
    out["spread"] = [min(remoted), max(remoted)]
    if name in TARGETS:
        out |= {"target": TARGETS[name], "met": value <= TARGETS[name]}
    return out


def main() -> None:
    parser = argparse.ArgumentParser(prog="./bench remoting")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    report = run()
    if arguments.json:
        print(json.dumps(report))
        return
    for r in report["results"]:  # type: ignore[attr-defined]
        beside = f"direct {r['direct']}" if "direct" in r else ""
        verdict = {True: "met", False: "missed"}.get(r.get("met"), "")
        print(f"{r['name']:32} {r['value']:>12} {beside:20} {verdict}")


if __name__ == "__main__":
    sys.exit(main())
