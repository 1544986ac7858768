"""Commands and environment of a node's spawner, launcher and agent.

`python -m nodes.service` supervises them on machines without systemd.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import stat
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from queue import SimpleQueue

from nodes import log_format
from nodes.privileges import give_up_root, pass_to_spawner
from nodes.processes import SupervisedProcess
from nodes.top_level import exit_status_of

UNPRIVILEGED_ID = 61444
"""User and group id of a node's processes when root starts them without systemd.

It lies in systemd's range for dynamic users and has no entry in any file.
"""


@dataclass(frozen=True)
class NodeService:
    """Folders and options of a node's launcher and agent."""

    programs: str
    """Folder of busbar-launcher and busbar-session."""
    softgpu: str
    modules: str
    """Folder from which Python imports `nodes`."""
    state: str
    """Folder of keys, certificates, identity and logs; mode 0700."""
    runtime: str
    """Folder of sockets; mode 0700. It must be short: socket paths are limited to 107 bytes."""
    software_gpus: int = 0
    """Number of software GPUs; 0 uses NVIDIA's driver."""
    addresses: list[str] = field(default_factory=lambda: ["127.0.0.1"])
    # Clients connect from other machines; the launcher ignores connections without a ticket.
    listen: str = "0.0.0.0"  # noqa: S104
    port: int = 8445
    python: str = sys.executable
    fleet_address: str = ""
    appliance_url: str = ""
    """Addresses of the appliance if they differ from those of the enrolment."""

    @classmethod
    def load(cls, path: Path) -> NodeService:
        return cls(**json.loads(path.read_text()))

    def save(self, path: Path) -> None:
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps(asdict(self), indent=2) + "\n")
        fresh.replace(path)

    def environment(self, base: dict[str, str]) -> dict[str, str]:
        """Return the environment of launcher, agent and local programs on the node's GPUs."""
        env = base | {"PYTHONPATH": self.modules, "PYTHONDONTWRITEBYTECODE": "1"}
        if not self.software_gpus:
            return env
        paths = [self.softgpu, *([env["LD_LIBRARY_PATH"]] if env.get("LD_LIBRARY_PATH") else [])]
        return env | {
            "BUSBAR_SOFTGPU_DEVICES": str(self.software_gpus),
            "BUSBAR_SOFTGPU_DIR": f"{self.runtime}/softgpu",
            "BUSBAR_SOFTGPU_CACHE": env.get("BUSBAR_SOFTGPU_CACHE", f"{self.state}/kernels"),
            "LD_LIBRARY_PATH": ":".join(paths),
        }

    @property
    def driver(self) -> str:
        return f"{self.softgpu}/libcuda.so.1" if self.software_gpus else "libcuda.so.1"

    def spawner_command(self) -> list[str]:
        return [
            f"{self.programs}/busbar-spawner",
            "--runtime",
            self.runtime,
            "--session-program",
            f"{self.programs}/busbar-session",
            "--driver",
            self.driver,
            "--cache",
            f"{self.state}/cache",
        ]

    def launcher_command(self) -> list[str]:
        return [
            f"{self.programs}/busbar-launcher",
            "--runtime",
            self.runtime,
            "--agent-socket",
            f"{self.runtime}/agent.sock",
            "--driver",
            self.driver,
            "--listen",
            self.listen,
            "--port",
            str(self.port),
            "--cache",
            f"{self.state}/cache",
        ]

    def agent_command(self) -> list[str]:
        command = [
            self.python,
            "-m",
            "nodes",
            "--folder",
            self.state,
            "run",
            "--launcher-socket",
            f"{self.runtime}/agent.sock",
        ]
        command += [argument for a in self.addresses for argument in ("--address", a)]
        command += ["--appliance", self.fleet_address] if self.fleet_address else []
        return command + (["--appliance-url", self.appliance_url] if self.appliance_url else [])

    def processes(
        self, logs: Path, base: dict[str, str]
    ) -> tuple[SupervisedProcess, SupervisedProcess, SupervisedProcess]:
        """Return spawner, launcher and agent, not started."""
        env = self.environment(base)
        folder = Path(self.modules)
        return (
            SupervisedProcess(
                "spawner",
                self.spawner_command(),
                env,
                logs / "spawner.log",
                folder=folder,
                in_child=pass_to_spawner,
            ),
            SupervisedProcess(
                "launcher",
                self.launcher_command(),
                env,
                logs / "launcher.log",
                signal.SIGINT,
                folder,
            ),
            SupervisedProcess(
                "agent", self.agent_command(), env, logs / "agent.log", folder=folder
            ),
        )


def drop_privileges(service: NodeService) -> None:
    """Give the folders to the unprivileged user and switch to it.

    No process of the node runs as root, and only the spawner has capabilities.
    """
    for folder in (Path(service.state), Path(service.runtime)):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        give_away(folder, UNPRIVILEGED_ID)
    give_up_root(UNPRIVILEGED_ID)


def give_away(folder: Path, owner: int) -> None:
    """Change user and group of a folder and everything in it, without following symbolic links.

    The new owner may run already and replace a path by a link at any time. Every entry is
    therefore addressed by the descriptor of its folder and its name, never by a path. Hard links
    to files of other users are left: a file with several names keeps its owner. An entry that the
    new owner deletes meanwhile is left out.
    """
    for _, folders, files, descriptor in os.fwalk(folder):
        for name in (*folders, *files):
            with contextlib.suppress(FileNotFoundError):
                status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
                if stat.S_ISDIR(status.st_mode) or status.st_nlink == 1:
                    os.chown(name, owner, owner, dir_fd=descriptor, follow_symlinks=False)
        os.chown(descriptor, owner, owner)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="busbar-node",
        description="Supervise the launcher and the agent of this machine until SIGTERM, or until"
        " SIGHUP, which leaves the sessions to the next supervisor.",
    )
    parser.add_argument("settings", type=Path, help="service.json of the installation")
    parser.add_argument("--log-format", choices=log_format.FORMATS)
    arguments = parser.parse_args()
    service = NodeService.load(arguments.settings)
    log_format.choose(arguments.log_format)
    log_format.log_to_stderr()
    os.umask(0o077)
    if os.getuid() == 0:
        drop_privileges(service)
    logs = Path(service.state) / "log"
    logs.mkdir(exist_ok=True)
    supervise(service.processes(logs, dict(os.environ)), Path(service.runtime))
    return 0


def supervise(processes: tuple[SupervisedProcess, ...], runtime: Path) -> None:
    """Run the processes until a signal. SIGHUP leaves sessions and runtime to the next ones."""
    received: SimpleQueue[int] = SimpleQueue()
    for s in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(s, lambda number, _: received.put(number))
    for p in processes:
        p.start()
    leaves_sessions = received.get() == signal.SIGHUP
    for p in reversed(processes):
        if leaves_sessions:
            p.stop_signal = signal.SIGTERM
        p.stop()
    if not leaves_sessions:
        shutil.rmtree(runtime, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(exit_status_of("busbar-node", main, is_service=True))
