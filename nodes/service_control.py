"""Start and stop of an installed node, with systemd or with a supervisor of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from nodes import log_format, processes
from nodes.errors import NodeError
from nodes.journal import Journal
from nodes.log_rotation import rotate_if_large
from nodes.paths import (
    COMMAND,
    HOME,
    LIBRARY,
    LOG_FILE,
    PID_FILE,
    PROGRAMS,
    SETTINGS,
    SYSTEMD_UNITS,
)
from nodes.privileges import SPAWNER_CAPABILITIES
from nodes.service import NodeService

SPAWNER_UNIT = "busbar-spawner.service"
LAUNCHER_UNIT, AGENT_UNIT = "busbar-launcher.service", "busbar-agent.service"
UNITS = (SPAWNER_UNIT, LAUNCHER_UNIT, AGENT_UNIT)
STOP_SECONDS = 3 * processes.STOP_SECONDS + 4
"""Time in which the supervisor ends: it stops its processes one after the other."""
OOM_SCORE = -900
"""When memory runs out, the kernel ends nearly all other processes before those of the node."""
ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "%": "%%"})
"""In a quoted word of a unit."""
RESERVED_CPU = "CPUWeight=1000"
"""Of launcher and agent, beside 100 of the spawner's unit with all sessions in it."""


def has_systemd() -> bool:
    return Path("/run/systemd/system").is_dir()


def systemctl(*arguments: str, check: bool = True) -> None:
    subprocess.run(["systemctl", *arguments], check=check, capture_output=True)


def quoted(word: str) -> str:
    """Return a word that systemd reads as it is: addresses come from the request to enrol."""
    return f'"{word.translate(ESCAPES)}"'


def unit_text(
    description: str,
    command: list[str],
    env: dict[str, str],
    extra: str,
    capabilities: str = "",
) -> str:
    environment = "\n".join(f"Environment={quoted(f'{k}={v}')}" for k, v in sorted(env.items()))
    return f"""[Unit]
Description={description}
After=network-online.target
Wants=network-online.target

[Service]
ExecStart={" ".join(quoted(word).replace("$", "$$") for word in command)}
{environment}
DynamicUser=yes
User=busbar
StateDirectory=busbar
StateDirectoryMode=0700
RuntimeDirectory=busbar
RuntimeDirectoryMode=0700
RuntimeDirectoryPreserve=yes
WorkingDirectory={HOME}
Restart=always
RestartSec=1
UMask=0077
NoNewPrivileges=yes
CapabilityBoundingSet={capabilities}
AmbientCapabilities={capabilities}
ProtectControlGroups=no
OOMScoreAdjust={OOM_SCORE}
{extra}
[Install]
WantedBy=multi-user.target
"""


def spawner_unit(service: NodeService) -> str:
    """Return the unit of the spawner, the only one with capabilities.

    The spawner mounts a /proc of its own in each cage, which the kernel permits without root only
    if no part of its own /proc is protected.
    """
    return unit_text(
        "Busbar spawner",
        service.spawner_command(),
        service.environment({}),
        "KillMode=process\nDelegate=yes\nKillSignal=SIGTERM",
        " ".join(SPAWNER_CAPABILITIES),
    )


def write_units(journal: Journal, service: NodeService) -> None:
    """Write the units of spawner, launcher and agent.

    The units of spawner and launcher kill only the process itself: sessions continue, and the next
    launcher adopts them.
    """
    env = service.environment({})
    launcher = unit_text(
        "Busbar launcher",
        service.launcher_command(),
        env,
        f"KillMode=process\nKillSignal=SIGTERM\nProtectKernelTunables=yes\n{RESERVED_CPU}",
    )
    agent = unit_text(
        "Busbar agent",
        service.agent_command(),
        env,
        f"KillMode=mixed\nProtectKernelTunables=yes\n{RESERVED_CPU}",
    )
    journal.create_file(SYSTEMD_UNITS / SPAWNER_UNIT, spawner_unit(service))
    journal.create_file(SYSTEMD_UNITS / LAUNCHER_UNIT, launcher)
    journal.create_file(SYSTEMD_UNITS / AGENT_UNIT, agent)
    for name in UNITS:
        # `systemctl enable` creates these links.
        journal.record(SYSTEMD_UNITS / "multi-user.target.wants" / name)


def start() -> None:
    """Start launcher and agent. Does nothing if they run already."""
    if has_systemd():
        systemctl("daemon-reload")
        systemctl("enable", "--now", *UNITS)
        return
    if supervisor_pid() is not None:
        return
    env = {
        "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
        "PYTHONPATH": str(LIBRARY),
        "PYTHONDONTWRITEBYTECODE": "1",
        "LANG": "C.UTF-8",
    }
    if log_format.VARIABLE in os.environ:
        env[log_format.VARIABLE] = os.environ[log_format.VARIABLE]
    rotate_if_large(LOG_FILE)
    with LOG_FILE.open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "nodes.service", str(SETTINGS)],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            start_new_session=True,
        )
    PID_FILE.write_text(str(process.pid))


def stop() -> None:
    """Stop launcher and agent and kill the sessions of this machine.

    Blocks until they have ended, without systemd for up to 40 s.
    """
    if has_systemd():
        systemctl("disable", "--now", *reversed(UNITS), check=False)
    else:
        stop_supervisor()
        PID_FILE.unlink(missing_ok=True)
    kill_programs_in(PROGRAMS)


def restart_if_enabled() -> None:
    """Start the installed version of a node, unless it was stopped. Its sessions continue.

    Raises NodeError if the supervisor of the earlier version does not end.
    """
    if has_systemd():
        systemctl("daemon-reload")
    if not is_enabled():
        return
    if has_systemd():
        systemctl("restart", *UNITS)
        return
    stop_supervisor(signal.SIGHUP)
    if (pid := supervisor_pid()) is not None:
        raise NodeError(
            f"The node still runs its earlier version: process {pid} did not end in"
            f" {STOP_SECONDS:.0f} s. Run `{COMMAND} stop` and `{COMMAND} start`, which end the"
            " sessions."
        )
    start()


def is_enabled() -> bool:
    """Return False if the node was stopped. Without systemd, `stop` deletes PID_FILE."""
    if not has_systemd():
        return PID_FILE.exists()
    command = ["systemctl", "is-enabled", "--quiet", AGENT_UNIT]
    return subprocess.run(command, check=False).returncode == 0


def supervisor_pid() -> int | None:
    """Return the process id of `nodes.service`, or None if it does not run."""
    try:
        pid = int(PID_FILE.read_text())
        return pid if b"nodes.service" in Path(f"/proc/{pid}/cmdline").read_bytes() else None
    except (OSError, ValueError):
        return None


def stop_supervisor(number: signal.Signals = signal.SIGTERM) -> None:
    pid = supervisor_pid()
    if pid is not None:
        os.kill(pid, number)
        wait_until(lambda: supervisor_pid() is None)


def kill_programs_in(folder: Path) -> None:
    """Kill all processes whose program lies in the folder.

    Sessions survive their launcher by design, but must not survive the installation.
    """
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if Path(os.readlink(process / "exe")).parent == folder:
                os.kill(int(process.name), signal.SIGKILL)
        except OSError:
            continue


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + STOP_SECONDS
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
