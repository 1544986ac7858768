"""The launcher and the agent of one machine: how they are started, and `python -m nodes.service`, which keeps them where no systemd does."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import threading
from dataclasses import asdict, dataclass, field
from pathlib import Path

from nodes.processes import Part

UNPRIVILEGED = 61444
"""User and group where root starts us without systemd: of the range that systemd gives to services, with no entry in any file."""


@dataclass(frozen=True)
class NodeService:
    """Where the parts of a node lie, and what they are told."""

    programs: str
    """Folder of busbar-launcher and busbar-session."""
    softgpu: str
    modules: str
    """Folder from which Python imports `nodes`."""
    state: str
    """Keys, certificates, identity, log; 0700."""
    runtime: str
    """Sockets; 0700, and short: their paths are limited to 107 bytes."""
    software_gpus: int = 0
    """0: NVIDIA's driver of this machine."""
    addresses: list[str] = field(default_factory=lambda: ["127.0.0.1"])
    listen: str = "0.0.0.0"  # noqa: S104 - clients come from other machines; the port answers nothing without a ticket
    port: int = 8445
    python: str = sys.executable
    fleet_address: str = ""

    @classmethod
    def load(cls, path: Path) -> NodeService:
        return cls(**json.loads(path.read_text()))

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=2) + "\n")

    def environment(self, base: dict[str, str]) -> dict[str, str]:
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

    def launcher_command(self) -> list[str]:
        driver = f"{self.softgpu}/libcuda.so.1" if self.software_gpus else "libcuda.so.1"
        return [
            f"{self.programs}/busbar-launcher", "--runtime", self.runtime, "--agent-socket", f"{self.runtime}/agent.sock",
            "--session-program", f"{self.programs}/busbar-session", "--driver", driver, "--certificate", f"{self.state}/launcher.pem",
            "--key", f"{self.state}/launcher.key", "--listen", self.listen, "--port", str(self.port),
        ]  # fmt: skip

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
        command += [word for a in self.addresses for word in ("--address", a)]
        return command + (["--appliance", self.fleet_address] if self.fleet_address else [])

    def parts(self, logs: Path, base: dict[str, str]) -> tuple[Part, Part]:
        """Launcher and agent."""
        env = self.environment(base)
        folder = Path(self.modules)
        return (
            Part(
                "launcher",
                self.launcher_command(),
                env,
                logs / "launcher.log",
                signal.SIGINT,
                folder,
            ),
            Part("agent", self.agent_command(), env, logs / "agent.log", folder=folder),
        )


def become_unprivileged(service: NodeService) -> None:
    """Root only prepares the folders; nothing that speaks to the network runs as root."""
    for folder in (Path(service.state), Path(service.runtime)):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for path in (folder, *folder.rglob("*")):
            os.chown(path, UNPRIVILEGED, UNPRIVILEGED, follow_symlinks=False)
    os.setgroups([])
    os.setgid(UNPRIVILEGED)
    os.setuid(UNPRIVILEGED)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="busbar-node",
        description="Keeps this machine's launcher and agent running until SIGTERM.",
    )
    parser.add_argument("settings", type=Path, help="service.json, as the installation wrote it")
    service = NodeService.load(parser.parse_args().settings)
    os.umask(0o077)
    if os.getuid() == 0:
        become_unprivileged(service)
    logs = Path(service.state) / "log"
    logs.mkdir(exist_ok=True)
    stop = threading.Event()
    for s in (signal.SIGTERM, signal.SIGINT):
        signal.signal(s, lambda *_: stop.set())
    parts = service.parts(logs, dict(os.environ))
    for p in parts:
        p.start()
    stop.wait()
    for p in reversed(parts):
        p.stop()
    shutil.rmtree(service.runtime, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
