"""What `./run` keeps alive: the appliance, the launcher and the agent of one node on this machine."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from nodes.processes import Part
from nodes.service import NodeService

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "remoting"
SOFTGPU = BUILD / "softgpu"
READY_SECONDS = 60.0
SOFTWARE_GPUS = 2


def free_port(wanted: int, address: str) -> int:
    """The wanted port, or the next one that nobody listens on."""
    for port in range(wanted, wanted + 200):
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                s.bind((address, port))
            except OSError:
                continue
            return port
    raise SystemExit(f"No free port from {wanted} to {wanted + 199}.")


def has_nvidia_driver() -> bool:
    """A driver that starts and counts at least one device, asked in a process of its own."""
    code = "import ctypes,sys; l=ctypes.CDLL('libcuda.so.1'); n=ctypes.c_int(); sys.exit(l.cuInit(0) or l.cuDeviceGetCount(ctypes.byref(n)) or n.value < 1)"
    return (
        subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode
        == 0
    )


class MachineNode:
    """A node on this machine: its launcher and its agent, out of this build."""

    def __init__(self, folder: Path, stack: Stack, port: int, software_gpus: int) -> None:
        self.folder, self.runtime = folder, runtime_folder(folder)
        self.logs = folder / "log"
        for f in (self.folder, self.logs):
            f.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.service = NodeService(
            programs=str(BUILD), softgpu=str(SOFTGPU), modules=str(ROOT), state=str(folder), runtime=str(self.runtime), software_gpus=software_gpus,
            addresses=[stack.advertise], listen=stack.listen, port=port, fleet_address=f"{stack.advertise}:{stack.fleet_port}",
        )  # fmt: skip
        self.launcher, self.agent = self.service.parts(self.logs, dict(os.environ))

    def environment(self) -> dict[str, str]:
        """Of a program that runs on its GPUs directly."""
        return self.service.environment(dict(os.environ))

    def enrol(self, token: str) -> None:
        if (self.folder / "identity.json").exists():
            return
        command = [
            sys.executable,
            "-m",
            "nodes",
            "--folder",
            str(self.folder),
            "enrol",
            "--token",
            token,
        ]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"enrolment failed: {done.stderr.strip()}")

    def start(self) -> None:
        self.launcher.start()
        self.agent.start()

    def stop(self) -> None:
        for part in (self.agent, self.launcher):
            part.stop()
        shutil.rmtree(self.runtime, ignore_errors=True)


def runtime_folder(data: Path) -> Path:
    """Short, because socket paths are limited to 107 bytes; ours alone."""
    folder = (
        Path(tempfile.gettempdir())
        / f"busbar-{os.getuid()}-{hashlib.sha256(str(data).encode()).hexdigest()[:8]}"
    )
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid() or folder.stat().st_mode & 0o077:
        raise SystemExit(f"{folder} belongs to somebody else; remove it.")
    return folder


class Stack:
    """Appliance, launcher, agent. `data` holds all of it."""

    def __init__(
        self,
        data: Path,
        listen: str = "127.0.0.1",
        advertise: str = "127.0.0.1",
        base_port: int = 8443,
    ) -> None:
        self.data = data.resolve()
        self.listen, self.advertise = listen, advertise
        self.https_port = free_port(base_port, listen)
        self.fleet_port = free_port(max(base_port + 1, self.https_port + 1), listen)
        self.appliance_data, self.logs = self.data / "appliance", self.data / "log"
        for folder in (self.data, self.appliance_data, self.logs):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.software = not has_nvidia_driver()
        self.appliance = Part(
            "appliance",
            [sys.executable, "manage.py", "runappliance"],
            self.appliance_environment(),
            self.logs / "appliance.log",
            folder=ROOT,
        )
        self.nodes: list[MachineNode] = []
        self.node = self.add_node(
            "node", int(os.environ.get("BUSBAR_SOFTGPU_DEVICES", SOFTWARE_GPUS))
        )
        for part in self.parts:
            part.on_change = self._write_pids

    def add_node(self, name: str, software_gpus: int) -> MachineNode:
        """Not started yet."""
        port = free_port(
            max([self.fleet_port, *(n.service.port for n in self.nodes)]) + 1, self.listen
        )
        self.nodes.append(
            MachineNode(self.data / name, self, port, software_gpus if self.software else 0)
        )
        return self.nodes[-1]

    @property
    def parts(self) -> list[Part]:
        return [*(p for n in self.nodes for p in (n.agent, n.launcher)), self.appliance]

    @property
    def url(self) -> str:
        return f"https://{self.advertise}:{self.https_port}"

    def appliance_environment(self) -> dict[str, str]:
        return os.environ | {
            "BUSBAR_DATA": str(self.appliance_data), "BUSBAR_LISTEN": self.listen, "BUSBAR_ADVERTISE": self.advertise,
            "BUSBAR_HTTPS_PORT": str(self.https_port), "BUSBAR_FLEET_PORT": str(self.fleet_port),
        }  # fmt: skip

    def manage(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "manage.py", *arguments],
            env=self.appliance_environment(),
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"manage.py {arguments[0]} failed: {done.stderr.strip()[-500:]}")
        return done.stdout.strip()

    def start_appliance(self) -> None:
        self.appliance.start()
        wait_for("the appliance", self.ready, self.logs / "appliance.log")

    def ready(self) -> bool:
        """Over TLS, checked against the CA that the appliance made."""
        ca = self.appliance_data / "ca.pem"
        if not ca.exists():
            return False
        try:
            with urllib.request.urlopen(
                f"{self.url}/readyz", timeout=2, context=ssl.create_default_context(cafile=str(ca))
            ) as response:
                return bool(json.load(response)["ready"])
        except (OSError, ValueError, urllib.error.URLError):
            return False

    def start_node(self, node: MachineNode | None = None) -> None:
        chosen = node or self.node
        if not (chosen.folder / "identity.json").exists():
            chosen.enrol(self.manage("create_enrolment_token"))
        chosen.start()

    def ca_fingerprint(self) -> str:
        return hashlib.sha256(
            ssl.PEM_cert_to_DER_cert((self.appliance_data / "ca.pem").read_text())
        ).hexdigest()

    def certificate_fingerprint(self) -> str:
        first = (self.appliance_data / "server.pem").read_text().split("-----END CERTIFICATE-----")[
            0
        ] + "-----END CERTIFICATE-----\n"
        digest = hashlib.sha256(ssl.PEM_cert_to_DER_cert(first)).hexdigest().upper()
        return ":".join(digest[i : i + 2] for i in range(0, 64, 2))

    def _write_pids(self) -> None:
        pids = {p.name: p.process.pid for p in self.parts if p.process is not None}
        fresh = self.data / f"pids.{threading.get_ident()}"
        fresh.write_text(json.dumps(pids))
        fresh.replace(self.data / "pids.json")

    def stop(self) -> None:
        for node in self.nodes:
            node.stop()
        self.appliance.stop()


def wait_for(
    what: str, done: Callable[[], bool], log: Path, seconds: float = READY_SECONDS
) -> None:
    end = time.monotonic() + seconds
    while not done():
        if time.monotonic() > end:
            raise SystemExit(f"{what} did not get ready in {seconds:.0f} s; see {log}")
        time.sleep(0.05)


def banner(stack: Stack) -> str:
    password_file = stack.appliance_data / "initial-admin-password"
    first_start = not (stack.data / "started").exists()
    (stack.data / "started").touch()
    if password_file.exists() and first_start:
        password = f"admin / {password_file.read_text().strip()}   (one-time: you choose your own at first login; 24 h)"
    elif password_file.exists():
        password = f"admin; the one-time password is in {password_file}"
    else:
        password = "admin, with the password you chose  (lost? manage.py reset_admin_password)"
    command = os.path.relpath(ROOT / "build" / "bin" / "busbar")
    gpus = (
        "two software GPUs (this machine's processor; no NVIDIA driver was found)"
        if stack.software
        else "this machine's NVIDIA GPUs"
    )
    return "\n".join(
        (
            f"  Console    {stack.url}   API page {stack.url}/api/docs",
            f"  TLS        SHA-256 {stack.certificate_fingerprint()}",
            f"  Login      {password}",
            f"  GPUs       {gpus}",
            f"  Try        {command} login {stack.url} --ca-sha256 {stack.ca_fingerprint()}",
            f"             {command} run -n 1 -p 25 -- {os.path.relpath(BUILD / 'demo' / 'gpu_demo')} add",
            f"  Logs       {stack.logs}, {stack.node.logs}     stop: Ctrl-C",
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="./run",
        description="Starts the appliance and one node on this machine, and keeps them running.",
    )
    parser.add_argument(
        "--listen", default="127.0.0.1", help="address to bind (default: this machine only)"
    )
    parser.add_argument(
        "--advertise",
        help="address under which others reach this machine (default: that of --listen)",
    )
    parser.add_argument("--port", type=int, default=8443)
    parser.add_argument("--data", type=Path, default=ROOT / "var")
    arguments = parser.parse_args()
    advertise = arguments.advertise or (
        arguments.listen if arguments.listen not in ("0.0.0.0", "::") else socket.gethostname()
    )  # noqa: S104 - compared, not bound
    stack = Stack(arguments.data, arguments.listen, advertise, arguments.port)
    stop = threading.Event()
    for s in (signal.SIGINT, signal.SIGTERM):
        signal.signal(s, lambda *_: stop.set())
    try:
        stack.start_appliance()
        stack.start_node()
        print(banner(stack), flush=True)
        stop.wait()
    finally:
        stack.stop()


if __name__ == "__main__":
    main()
