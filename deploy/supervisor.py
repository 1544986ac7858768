"""Supervisor of `./run`: the appliance and the launcher and agent of a node on this machine."""

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
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from appliance.runtime.admin_command import admin_command
from deploy.demo_fleet.start import MAX_NODES, DemoFleet
from deploy.ports import MAX_PORT, choose_ports, free_port
from deploy.run_lock import RunLock
from nodes import log_format
from nodes.processes import SupervisedProcess
from nodes.service import NodeService
from nodes.top_level import exit_status_of

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "remoting"
SOFTGPU = BUILD / "softgpu"
READY_SECONDS = 120.0
SOFTWARE_GPUS = 2
MAX_RUNTIME_BYTES = 41
"""The path of a socket has at most 107 bytes, unix(7). In the runtime folder, the longest one is
sessions/ALLOCATION/SESSION.offers, with 32 and 16 digits."""
DRIVER_PROBE = """
import ctypes, sys
driver, count = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
sys.exit(driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)) or count.value < 1)
"""


def has_nvidia_driver() -> bool:
    """Return whether a CUDA driver initialises and reports a device. Runs it in a child process."""
    done = subprocess.run([sys.executable, "-c", DRIVER_PROBE], capture_output=True, check=False)
    return done.returncode == 0


class MachineNode:
    """A node on this machine, with the launcher and agent of this build."""

    def __init__(self, folder: Path, stack: Stack, port: int, software_gpus: int) -> None:
        self.folder, self.runtime = folder, runtime_folder(folder)
        self.logs = folder / "log"
        for path in (self.folder, self.logs):
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.service = NodeService(
            programs=str(BUILD),
            softgpu=str(SOFTGPU),
            modules=str(ROOT),
            state=str(folder),
            runtime=str(self.runtime),
            software_gpus=software_gpus,
            addresses=[stack.advertise],
            listen=stack.listen,
            port=port,
            fleet_address=f"{stack.advertise}:{stack.fleet_port}",
            appliance_url=stack.url,
        )
        self.spawner, self.launcher, self.agent = self.service.processes(
            self.logs, dict(os.environ)
        )

    def environment(self) -> dict[str, str]:
        """Return the environment of a program that uses the GPUs of this node directly."""
        return self.service.environment(dict(os.environ))

    @property
    def parts(self) -> tuple[SupervisedProcess, ...]:
        return self.spawner, self.launcher, self.agent

    @property
    def is_enrolled(self) -> bool:
        return (self.folder / "current" / "identity.json").exists()

    def enrol(self, token: str) -> None:
        """Exchange a token for certificates. Raises SystemExit if the appliance refuses it."""
        command = [sys.executable, "-m", "nodes", "--folder", str(self.folder)]
        done = subprocess.run(
            [*command, "enrol", "--token", token],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise SystemExit(
                f"Enrolment of the node in {self.folder} failed: {done.stderr.strip()}"
            )

    def start(self) -> None:
        for part in self.parts:
            part.start()

    def stop(self) -> None:
        for part in reversed(self.parts):
            part.stop()
        shutil.rmtree(self.runtime, ignore_errors=True)


def runtime_folder(data: Path) -> Path:
    """Return a private folder for sockets.

    Raises SystemExit if the folder is owned by, or open to, another user, or if its path is too
    long for sockets.
    """
    name = hashlib.sha256(str(data).encode()).hexdigest()[:8]
    folder = Path(tempfile.gettempdir()) / f"bb-{os.getuid()}-{name}"
    if len(os.fsencode(folder)) > MAX_RUNTIME_BYTES:
        raise SystemExit(f"The path {folder} is too long for sockets. Set TMPDIR to a shorter one.")
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid() or folder.stat().st_mode & 0o077:
        raise SystemExit(f"{folder} is not private to this user. Remove it and start again.")
    return folder


def first_fingerprint(path: Path) -> str:
    """Return the SHA-256 of the first certificate in a file."""
    end = "-----END CERTIFICATE-----"
    first = path.read_text().partition(end)[0] + end + "\n"
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(first)).hexdigest()


class Stack:
    """The appliance and its nodes on this machine; `data` holds their files.

    `environment` has additional variables of the appliance. The constructor locks the folder,
    chooses the ports and starts nothing. It raises SystemExit if another stack has the folder, or
    if `base_port` or a port that the folder has recorded is taken.
    """

    def __init__(
        self,
        data: Path,
        listen: str = "127.0.0.1",
        advertise: str = "127.0.0.1",
        base_port: int | None = None,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.data = data.resolve()
        self._lock = RunLock(self.data)
        self._pids = threading.Lock()
        self.listen, self.advertise = listen, advertise
        self._environment = environment
        self.ports = choose_ports(self.data, base_port, listen)
        self.https_port, self.fleet_port = self.ports.https, self.ports.fleet
        self.appliance_data, self.logs = self.data / "appliance", self.data / "log"
        for folder in (self.data, self.appliance_data, self.logs):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.software = not has_nvidia_driver()
        self.appliance = SupervisedProcess(
            "appliance",
            [sys.executable, "manage.py", "runappliance"],
            self.appliance_environment(),
            self.logs / "appliance.log",
            folder=ROOT,
        )
        self.demo_fleet: DemoFleet | None = None
        self.nodes: list[MachineNode] = []
        self.node = self.add_node(
            "node", int(os.environ.get("BUSBAR_SOFTGPU_DEVICES", SOFTWARE_GPUS))
        )
        for part in self.parts:
            part.on_change = self._write_pids
        self._lock.publish(self.url)

    def add_node(self, name: str, software_gpus: int) -> MachineNode:
        """Return a new node, not started, with a port of its own."""
        port = free_port(
            max([self.fleet_port, *(n.service.port for n in self.nodes)]) + 1, self.listen
        )
        self.nodes.append(
            MachineNode(self.data / name, self, port, software_gpus if self.software else 0)
        )
        return self.nodes[-1]

    @property
    def parts(self) -> list[SupervisedProcess]:
        demo = [self.demo_fleet.process] if self.demo_fleet else []
        return [*demo, *(p for n in self.nodes for p in reversed(n.parts)), self.appliance]

    @property
    def url(self) -> str:
        return f"https://{self.advertise}:{self.https_port}"

    def appliance_environment(self) -> dict[str, str]:
        return (
            os.environ
            | dict(self._environment)
            | {
                "BUSBAR_DATA": str(self.appliance_data),
                "BUSBAR_LISTEN": self.listen,
                "BUSBAR_ADVERTISE": self.advertise,
                "BUSBAR_HTTPS_PORT": str(self.https_port),
                "BUSBAR_FLEET_PORT": str(self.fleet_port),
            }
        )

    def manage(self, *arguments: str) -> str:
        """Run a management command and return its output. Raises SystemExit if it fails."""
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
        """Block until the appliance is ready; raises SystemExit after READY_SECONDS."""
        self.appliance.start()
        wait_for("the appliance", self.ready, self.logs / "appliance.log")
        self.ports.record(self.data)

    def ready(self) -> bool:
        """Return whether the appliance serves requests, over TLS with its own CA."""
        ca = self.appliance_data / "ca.pem"
        if not ca.exists():
            return False
        context = ssl.create_default_context(cafile=str(ca))
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # the CA of an older data folder
        try:
            with urllib.request.urlopen(
                f"{self.url}/readyz", timeout=2, context=context
            ) as response:
                return bool(json.load(response)["ready"])
        except (OSError, ValueError, urllib.error.URLError):
            return False

    def start_node(self, node: MachineNode | None = None) -> None:
        """Start a node, by default the first one; enrol it the first time."""
        chosen = node or self.node
        if not chosen.is_enrolled:
            chosen.enrol(self.manage("create_enrolment_token"))
        chosen.start()

    def start_with_demo_fleet(self, nodes: int) -> None:
        """Start the appliance, so many simulated nodes, and the node of this machine.

        Blocks until the invented past is written: about a second for each node.
        """
        fleet = self.demo_fleet = DemoFleet(self, nodes)
        fleet.process.on_change = self._write_pids
        fleet.prepare()
        self.start_appliance()
        fleet.start()
        self.start_node()
        fleet.write_past()

    def ca_fingerprint(self) -> str:
        return first_fingerprint(self.appliance_data / "ca.pem")

    def certificate_fingerprint(self) -> str:
        digest = first_fingerprint(self.appliance_data / "server.pem").upper()
        return ":".join(digest[i : i + 2] for i in range(0, 64, 2))

    def _write_pids(self) -> None:
        with self._pids:  # the last one to write has seen all processes
            pids = {p.name: p.process.pid for p in self.parts if p.process is not None}
            temporary = self.data / "pids.new"
            temporary.write_text(json.dumps(pids))
            temporary.replace(self.data / "pids.json")

    def stop(self) -> None:
        if self.demo_fleet is not None:
            self.demo_fleet.stop()
        for node in self.nodes:
            node.stop()
        self.appliance.stop()
        self._lock.release()


def wait_for(
    name: str, done: Callable[[], bool], log: Path, seconds: float = READY_SECONDS
) -> None:
    """Block until `done` returns true; raises SystemExit after `seconds` and refers to `log`."""
    end = time.monotonic() + seconds
    while not done():
        if time.monotonic() > end:
            raise SystemExit(f"Not ready after {seconds:.0f} s: {name}. See {log}")
        time.sleep(0.05)


def login_hint(stack: Stack) -> str:
    """Return how to log in. Shows the one-time password at the first start only."""
    password_file = stack.appliance_data / "initial-admin-password"
    first_start = not (stack.data / "started").exists()
    (stack.data / "started").touch()
    if not password_file.exists():
        reset = admin_command(stack.appliance_data, "reset-password", "admin")
        return f"admin and your password; reset it with: {reset}"
    if not first_start:
        return f"admin and the one-time password in {password_file}"
    password = password_file.read_text().strip()
    return f"admin / {password}   (one-time, valid for 24 h; change it at the first login)"


def banner(stack: Stack) -> str:
    """Return the text that ./run prints when the stack is ready."""
    command = os.path.relpath(ROOT / "build" / "bin" / "busbar")
    demo = os.path.relpath(BUILD / "demo" / "gpu_demo")
    gpus = "the NVIDIA GPUs of this machine"
    if stack.demo_fleet is not None:
        gpus = f"simulated, of {stack.demo_fleet.nodes} nodes, beside those of this machine"
    elif stack.software:
        count = stack.node.service.software_gpus
        gpus = f"{count} software GPUs on the processor (no NVIDIA driver found)"
    login = f"{command} login {stack.url} --ca-sha256 {stack.ca_fingerprint()}"
    return "\n".join(
        (
            f"  Console    {stack.url}   API page {stack.url}/api/docs",
            f"  TLS        SHA-256 {stack.certificate_fingerprint()}",
            f"  Login      {login_hint(stack)}",
            f"  GPUs       {gpus}",
            f"  Try        {login}",
            f"             {command} run -n 1 -p 25 -- {demo} add",
            f"  Logs       {stack.logs}, {stack.node.logs}     Stop: Ctrl-C",
        )
    )


def number_up_to(most: int) -> Callable[[str], int]:
    """Return the type of an option: a number from 1 to `most`."""

    def parse(text: str) -> int:
        if not (text.isascii() and text.isdecimal() and 1 <= int(text[:20]) <= most):
            raise argparse.ArgumentTypeError(f"{text} is no number from 1 to {most}")
        return int(text)

    return parse


def parse_arguments() -> argparse.Namespace:
    """Return the options of ./run. The script shows their help before set-up."""
    parser = argparse.ArgumentParser(prog="./run", add_help=False, allow_abbrev=False)
    parser.add_argument("--listen", default="127.0.0.1")
    parser.add_argument("--advertise")
    parser.add_argument("--port", type=number_up_to(MAX_PORT))
    parser.add_argument("--data", type=Path)
    parser.add_argument("--demo-fleet", type=number_up_to(MAX_NODES), metavar="NODES")
    parser.add_argument("--log-format", choices=log_format.FORMATS)
    arguments = parser.parse_args()
    if arguments.data is None:
        arguments.data = ROOT / "var" / ("demo-fleet" if arguments.demo_fleet else ".")
    if arguments.advertise is None:
        wildcard = arguments.listen in ("0.0.0.0", "::")  # noqa: S104 - compared, not bound
        arguments.advertise = socket.gethostname() if wildcard else arguments.listen
    return arguments


def stop_event() -> threading.Event:
    """Return an event that SIGINT and SIGTERM set. Call it in the main thread."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    return stop


def main() -> None:
    arguments = parse_arguments()
    log_format.choose(arguments.log_format)
    stack = Stack(arguments.data, arguments.listen, arguments.advertise, arguments.port)
    stop = stop_event()
    try:
        if arguments.demo_fleet:
            stack.start_with_demo_fleet(arguments.demo_fleet)
        else:
            stack.start_appliance()
            stack.start_node()
        print(banner(stack), flush=True)
        stop.wait()
    finally:
        stack.stop()


if __name__ == "__main__":
    sys.exit(exit_status_of("./run", main))
