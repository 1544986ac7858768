"""A node without an appliance: a launcher whose tickets and grants are signed here."""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from appliance.allocations import ticket_layouts
from appliance.allocations.tickets import SigningKey, issue
from deploy import supervisor
from deploy.supervisor import ROOT, wait_for
from nodes.launcher_control import (
    Grant,
    Grants,
    LauncherControl,
    LauncherError,
    Partition,
    SessionReport,
)
from nodes.launcher_layouts import TicketKey
from tests.ports import port

BUILD = Path(os.environ.get("BUSBAR_TEST_BUILD", supervisor.BUILD))
"""Folder of the data plane; BUSBAR_TEST_BUILD can name a sanitized build."""
SOFTGPU = BUILD / "softgpu"
PRELOADED = (
    {"LD_PRELOAD": os.environ["BUSBAR_TEST_PRELOAD"]} if "BUSBAR_TEST_PRELOAD" in os.environ else {}
)
"""The run-time library of a sanitized build, which a program must load before ours."""


def softgpu_environment(folder: Path, devices: int = 2) -> dict[str, str]:
    return os.environ | {
        "BUSBAR_SOFTGPU_DEVICES": str(devices),
        "BUSBAR_SOFTGPU_DIR": str(folder),
        "BUSBAR_SOFTGPU_CACHE": os.environ.get(
            "BUSBAR_SOFTGPU_CACHE", str(ROOT / "build" / "test-kernels")
        ),
    }


def direct_environment(folder: Path) -> dict[str, str]:
    """Return the environment of a program that runs on the software GPU without remoting."""
    return softgpu_environment(folder) | {"LD_LIBRARY_PATH": str(SOFTGPU)} | PRELOADED


def gpu_uuids(env: dict[str, str]) -> list[uuid.UUID]:
    out = subprocess.run(
        [str(SOFTGPU / "softgpu-status")], env=env, capture_output=True, text=True, check=True
    ).stdout
    return [uuid.UUID(json.loads(line)["uuid"].removeprefix("GPU-")) for line in out.splitlines()]


def gpu_memory_bytes(env: dict[str, str]) -> list[int]:
    """Return the memory that processes hold on each software GPU."""
    out = subprocess.run(
        [str(SOFTGPU / "softgpu-status")], env=env, capture_output=True, text=True, check=True
    ).stdout
    return [
        sum(p["memory_bytes"] for p in json.loads(line)["processes"]) for line in out.splitlines()
    ]


FAILPOINTS = "failpoints"
"""Folder in BUILD of the programs that obey failpoints, which the shipped ones do not."""


def programs_for(environment: Mapping[str, str]) -> Path:
    """Return the folder of programs: the shipped ones, unless the environment has a failpoint."""
    has_failpoint = any(name.startswith("BUSBAR_FAILPOINT_") for name in environment)
    return BUILD / FAILPOINTS if has_failpoint else BUILD


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


NULL_DRIVER = BUILD / "null_driver" / "libcuda.so.1"
NVIDIA_NULL_DRIVER = BUILD / "null_driver_nvidia" / "libcuda.so.1"
"""The same driver, but session servers may make the system calls that NVIDIA's driver needs."""
NULL_DRIVER_GPUS = [uuid.UUID(bytes=bytes([0x40] * 15 + [i + 1])) for i in range(8)]


EVENT_SECONDS = 120.0
"""Deadline of the event for which a test waits. It costs nothing if the event comes."""
TENANT_ID = uuid.UUID(int=1)
"""The same for all nodes, so that they find kernels that earlier tests compiled."""


def unit_privileges(user: int, capabilities: Sequence[str] = ()) -> list[str]:
    """Return a command that starts a program with the rights of a systemd unit.

    They are those of User, NoNewPrivileges, CapabilityBoundingSet, AmbientCapabilities and UMask.
    """
    kept = ",".join(["-all", *(f"+{name.removeprefix('CAP_').lower()}" for name in capabilities)])
    sets = [f"--{name}={kept}" for name in ("inh-caps", "ambient-caps", "bounding-set")]
    users = [f"--reuid={user}", f"--regid={user}", "--clear-groups"]
    umask = ["/bin/sh", "-c", 'umask 0077 && exec "$@"', "sh"]
    return [*umask, "setpriv", "--no-new-privs", *users, *sets]


def public(path: Path) -> Path:
    """Return a copy of a file of the build that every user can reach: the checkout may be private.

    Files from elsewhere are returned as they are.
    """
    if not path.is_relative_to(BUILD):
        return path
    copy = Path(tempfile.gettempdir()) / "public" / path.relative_to(BUILD)
    if not copy.exists():
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    return copy


def _ends(process: subprocess.Popen[bytes], number: int) -> bool:
    """Signal a process and return whether it ended; kill it if it did not."""
    process.send_signal(number)
    try:
        process.wait(EVENT_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return False
    return True


class LocalNode:
    """A spawner and a launcher with one grant.

    Its sessions use `driver`: the software GPU or the null driver. `user` is the id of the user of
    both, if it is not this one; their programs are then copies in the temporary folder. The spawner
    of that user has some `capabilities`. The spawner gets the `inherited` descriptors. `machine` is
    a command that starts the spawner on a machine with other devices.
    """

    def __init__(
        self,
        driver: Path = SOFTGPU / "libcuda.so.1",
        gpus: Sequence[uuid.UUID] = (),
        partitions: Sequence[Partition] = (),
        user: int | None = None,
        capabilities: Sequence[str] = (),
        session_program: Path | None = None,
        inherited: Sequence[int] = (),
        machine: Sequence[str] = (),
        **environment: str,
    ) -> None:
        self.driver, self.user, self.capabilities = driver, user, capabilities
        self.session_program, self.inherited = session_program, inherited
        self.machine = machine
        self.folder = Path(tempfile.mkdtemp(prefix="bbt-"))
        self.runtime = self.folder / "r"
        self.runtime.mkdir(mode=0o700)
        self.node_id, self.allocation_id = uuid.uuid4(), uuid.uuid4()
        self.tenant_id = TENANT_ID
        self.key, self.client_key = (
            SigningKey(Ed25519PrivateKey.generate()),
            X25519PrivateKey.generate(),
        )
        if user is not None:
            self.driver = public(driver)
            environment = {"BUSBAR_SOFTGPU_CACHE": str(self.folder / "kernels")} | environment
        self.env = softgpu_environment(self.folder / "gpu") | environment
        self.gpus = list(gpus) or (
            NULL_DRIVER_GPUS if driver in (NULL_DRIVER, NVIDIA_NULL_DRIVER) else gpu_uuids(self.env)
        )
        self.fence = (1, 5)
        self.partitions = tuple(partitions) or (Partition(self.gpus[0], 1 << 30, 50),)
        self.required_isolation: frozenset[str] = frozenset()
        self.requested_port = port(600) if driver != NULL_DRIVER else port(601)
        self.control = LauncherControl(self.runtime / "agent.sock", EVENT_SECONDS)
        self._give_to_user()
        self.spawner = self.start_spawner()
        self.launcher = self._start()
        self.grant()

    def _give_to_user(self) -> None:
        if self.user is not None:
            for path in (self.folder, *self.folder.rglob("*")):
                os.chown(path, self.user, self.user)

    def restart(self, **environment: str) -> None:
        """Kill the launcher and start a new one in the same runtime folder."""
        self.launcher.kill()
        self.launcher.wait()
        self.launcher = self._start(**environment)

    def restart_with(self, *options: str) -> None:
        """Kill the launcher and start a new one with these options."""
        self.launcher.kill()
        self.launcher.wait()
        self.launcher = self._start(*options)

    def restart_spawner(self, **environment: str) -> None:
        """Kill the spawner and start a new one."""
        self.spawner.kill()
        self.spawner.wait()
        self.spawner = self.start_spawner(**environment)

    def _popen(
        self,
        command: list[str],
        env: dict[str, str],
        log: BinaryIO,
        capabilities: Sequence[str] = (),
        inherited: Sequence[int] = (),
        machine: Sequence[str] = (),
    ) -> subprocess.Popen[bytes]:
        if self.user is not None:
            program, *arguments = command
            start = unit_privileges(self.user, capabilities)
            command = [*start, str(public(Path(program))), *arguments]
        command = [*machine, *command]
        return subprocess.Popen(command, env=env, stdout=log, stderr=log, pass_fds=inherited)

    def start_spawner(self, **environment: str) -> subprocess.Popen[bytes]:
        env = self.env | environment
        programs = programs_for(env)
        session_program = self.session_program or programs / "busbar-session"
        command = [
            str(programs / "busbar-spawner"),
            "--runtime",
            str(self.runtime),
            "--session-program",
            str(session_program if self.user is None else public(session_program)),
            "--driver",
            str(self.driver),
        ]
        with (self.folder / "launcher.log").open("ab") as log:
            process = self._popen(
                command, env, log, self.capabilities, self.inherited, self.machine
            )
        wait_for("the spawner", self._has_spawner, self.folder / "launcher.log")
        return process

    def _start(self, *options: str, **environment: str) -> subprocess.Popen[bytes]:
        env = self.env | environment
        command = [
            str(programs_for(env) / "busbar-launcher"),
            "--runtime",
            str(self.runtime),
            "--agent-socket",
            str(self.runtime / "agent.sock"),
            "--driver",
            str(self.driver),
            "--port",
            str(self.requested_port),
            *options,
        ]
        with (self.folder / "launcher.log").open("ab") as log:
            process = self._popen(command, env, log)
        wait_for("the launcher", self._is_ready, self.folder / "launcher.log")
        return process

    def _has_spawner(self) -> bool:
        with socket.socket(socket.AF_UNIX) as s:
            return s.connect_ex(str(self.runtime / "spawner.sock")) == 0

    def _is_ready(self) -> bool:
        try:
            self.control.sessions()
        except LauncherError:
            return False
        return True

    @property
    def port(self) -> int:
        return self.control.sessions().port

    def grants(self, *, fence: tuple[int, int] | None = None, granted: bool = True) -> Grants:
        grants = (
            (
                Grant(
                    self.allocation_id,
                    self.tenant_id,
                    *(fence or self.fence),
                    self.partitions,
                    self.required_isolation,
                ),
            )
            if granted
            else ()
        )
        return Grants(1, int(time.time()), self.node_id, (self.ticket_key(),), grants)

    def ticket_key(self) -> TicketKey:
        """Return what the appliance tells the node about its ticket key."""
        return TicketKey(self.key.key_id, self.key.public, self.key.node_secret(self.node_id))

    def grant(self, *, fence: tuple[int, int] | None = None, granted: bool = True) -> None:
        """Apply the desired state to the launcher, with the grant or without it."""
        self.control.apply(self.grants(fence=fence, granted=granted))

    def require(self, layers: frozenset[str]) -> None:
        """Grant sessions with these layers of isolation only."""
        self.required_isolation = layers
        self.grant()

    def ticket(self, **changes: object) -> bytes:
        values: dict[str, object] = {
            "key": self.key,
            "allocation_id": self.allocation_id,
            "node_id": self.node_id,
            "fence": self.fence,
            "now_seconds": int(time.time()),
            "client_public_key": self.client_key.public_key().public_bytes_raw(),
            "partitions": [
                ticket_layouts.Partition(p.gpu_uuid.bytes, p.memory_bytes, p.compute_percent)
                for p in self.partitions
            ],
        }
        return issue(**(values | changes))  # type: ignore[arg-type]

    def ticket_file(self) -> Path:
        """Write a ticket file atomically and return its path.

        Threads may call this concurrently, and started programs may still read the previous file.
        """
        path = self.folder / "ticket"
        new_file = self.folder / f"ticket.{uuid.uuid4().hex}"
        new_file.touch(mode=0o600)
        key = f"key {b64(self.client_key.private_bytes_raw())}"
        new_file.write_text("".join(line + "\n" for line in (key, *self.ticket_lines())))
        return new_file.replace(path)

    def ticket_lines(self) -> tuple[str, ...]:
        return (
            f"node {self.node_id}",
            f"endpoint 127.0.0.1 {self.port}",
            f"node_key {b64(self.key.node_key(self.node_id))}",
            f"ticket {b64(self.ticket())}",
        )

    def remote_environment(self, **more: str) -> dict[str, str]:
        """Return the environment of a program that uses the client library."""
        return (
            os.environ
            | {
                "BUSBAR_TICKET_FILE": str(self.ticket_file()),
                "LD_LIBRARY_PATH": str(BUILD / "client"),
            }
            | PRELOADED
            | more
        )

    def sessions(self) -> tuple[SessionReport, ...]:
        return self.control.sessions().sessions

    def stop(self) -> None:
        """Stop launcher and spawner, and remove their folder.

        Raises AssertionError with the log if one of them does not end, or if a sanitizer has
        reported an error.
        """
        late = [
            process.args
            for process, number in ((self.launcher, signal.SIGINT), (self.spawner, signal.SIGTERM))
            if not _ends(process, number)
        ]
        log = (self.folder / "launcher.log").read_text()
        assert not late, f"did not end: {late}\n{log[-4000:]}"
        assert "Sanitizer" not in log and "runtime error" not in log, log[-4000:]
        shutil.rmtree(self.folder)
