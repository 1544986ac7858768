"""Makes a machine a node, and unmakes it: everything made is written down first, so that exactly that is taken away again.

Runs on the machine itself, with its own Python and the standard library only. Progress goes to stdout as lines `BUSBAR {json}`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from nodes import preflight
from nodes.errors import NodeError
from nodes.service import NodeService

HOME, STATE, RUNTIME = Path("/opt/busbar"), Path("/var/lib/busbar"), Path("/run/busbar")
JOURNAL, SETTINGS, COMMAND = HOME / "journal.json", HOME / "service.json", HOME / "busbar-node"
UNITS = Path("/etc/systemd/system")
MARK = "BUSBAR "
COMMIT_SECONDS = 180
STOP_SECONDS = 20.0


def say(**fields: Any) -> None:
    print(MARK + json.dumps(fields), flush=True)


class Journal:
    """What was made, in order; on disk before it is made."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.committed = False

    @classmethod
    def load(cls) -> Journal | None:
        try:
            content = json.loads(JOURNAL.read_text())
        except (OSError, ValueError):
            return None
        journal = cls()
        journal.made, journal.committed = list(content["made"]), bool(content["committed"])
        return journal

    def save(self) -> None:
        fresh = JOURNAL.with_suffix(".new")
        fresh.write_text(json.dumps({"made": self.made, "committed": self.committed}))
        fresh.replace(JOURNAL)

    def folder(self, path: Path, mode: int = 0o755) -> None:
        """Also the parents that are missing, so that undoing leaves none."""
        missing = [p for p in (path, *path.parents) if not p.exists()]
        for p in reversed(missing):
            self.made.append(str(p))
            if JOURNAL.parent.exists():
                self.save()
            p.mkdir(mode=mode if p == path else 0o755)
        self.save()

    def file(self, path: Path, text: str, mode: int = 0o644) -> None:
        self.made.append(str(path))
        self.save()
        path.write_text(text)
        path.chmod(mode)

    def undo(self) -> None:
        """Files and folders of ours go whole; a parent that we made goes if nobody else put anything there."""
        for name in reversed(self.made):
            path = Path(name)
            if path.is_symlink() or path.is_file():
                path.unlink()
            elif path in (HOME, STATE):
                shutil.rmtree(path, ignore_errors=True)
            elif path.is_dir() and not any(path.iterdir()):
                path.rmdir()
        shutil.rmtree(RUNTIME, ignore_errors=True)


def has_systemd() -> bool:
    return Path("/run/systemd/system").is_dir()


def unit(description: str, command: list[str], env: dict[str, str], extra: str) -> str:
    environment = "\n".join(f'Environment="{k}={v}"' for k, v in sorted(env.items()))
    return f"""[Unit]
Description={description}
After=network-online.target
Wants=network-online.target

[Service]
ExecStart={" ".join(command)}
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
ProtectKernelTunables=yes
ProtectControlGroups=no
{extra}
[Install]
WantedBy=multi-user.target
"""


def write_units(journal: Journal, service: NodeService) -> None:
    """The launcher has a unit of its own and leaves its sessions running when it ends: the next one adopts them."""
    env = service.environment({})
    journal.file(
        UNITS / "busbar-launcher.service",
        unit(
            "Busbar launcher",
            service.launcher_command(),
            env,
            "KillMode=process\nDelegate=yes\nKillSignal=SIGTERM",
        ),
    )
    journal.file(
        UNITS / "busbar-agent.service",
        unit("Busbar agent", service.agent_command(), env, "KillMode=mixed"),
    )
    for name in ("busbar-launcher.service", "busbar-agent.service"):
        journal.made.append(str(UNITS / "multi-user.target.wants" / name))
    journal.save()


def start(service: NodeService) -> None:
    if has_systemd():
        subprocess.run(["systemctl", "daemon-reload"], check=True, capture_output=True)
        subprocess.run(
            ["systemctl", "enable", "--now", "busbar-launcher.service", "busbar-agent.service"],
            check=True,
            capture_output=True,
        )
        return
    if service_pid() is not None:
        return
    env = {
        "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
        "PYTHONPATH": str(HOME / "lib"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "LANG": "C.UTF-8",
    }
    with (HOME / "service.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "nodes.service", str(SETTINGS)],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            start_new_session=True,
        )
    (HOME / "service.pid").write_text(str(process.pid))


def stop() -> None:
    """Ends the launcher, the agent and the sessions of this machine."""
    if has_systemd():
        subprocess.run(
            ["systemctl", "disable", "--now", "busbar-agent.service", "busbar-launcher.service"],
            check=False,
            capture_output=True,
        )
    else:
        end_service()
    end_all_of(HOME / "bin")


def service_pid() -> int | None:
    """Of the process that keeps the node running where there is no systemd; None when there is none."""
    try:
        pid = int((HOME / "service.pid").read_text())
        return pid if b"nodes.service" in Path(f"/proc/{pid}/cmdline").read_bytes() else None
    except (OSError, ValueError):
        return None


def end_service() -> None:
    pid = service_pid()
    if pid is not None:
        os.kill(pid, signal.SIGTERM)
        wait_until(lambda: service_pid() is None)


def end_all_of(folder: Path) -> None:
    """Sessions outlive their launcher on purpose; not their installation."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if Path(os.readlink(process / "exe")).parent == folder:
                os.kill(int(process.name), signal.SIGKILL)
        except OSError:
            continue


def wait_until(done: Callable[[], bool]) -> None:
    end = time.monotonic() + STOP_SECONDS
    while not done() and time.monotonic() < end:
        time.sleep(0.05)


def unpack(bundle: Path, journal: Journal) -> None:
    journal.folder(HOME)
    library = HOME / "lib"
    library.mkdir()
    for wheel in sorted((bundle / "wheels").glob("*.whl")):
        with zipfile.ZipFile(wheel) as z:
            z.extractall(library)
    shutil.copytree(bundle / "nodes", library / "nodes")
    for folder in ("bin", "softgpu"):
        shutil.copytree(bundle / folder, HOME / folder)
    shutil.copy(bundle / "digest", HOME / "digest")
    make_readable(HOME)
    journal.folder(STATE, 0o700)


def make_readable(folder: Path) -> None:
    """The service runs unprivileged, whatever modes the bundle came with."""
    for path in folder.rglob("*"):
        program = path.parent.name in ("bin", "softgpu")
        path.chmod(0o755 if path.is_dir() or program else 0o644)


def try_programs() -> None:
    """A library that is missing shows here, with its name."""
    env = {"PYTHONPATH": str(HOME / "lib"), "PYTHONDONTWRITEBYTECODE": "1"}
    imports = [
        sys.executable,
        "-c",
        "import grpc, cryptography.x509, pynvml, google.protobuf, nodes.agent",
    ]
    for command in (
        [str(HOME / "bin" / "busbar-launcher"), "--version"],
        [str(HOME / "bin" / "busbar-session"), "--version"],
        imports,
    ):
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        if done.returncode:
            raise NodeError(
                f"{Path(command[0]).name} does not run here: {done.stderr.strip()[-300:]}"
            )


def enrol(token: str) -> None:
    """Through a private file: arguments can be read by every user of the machine."""
    path = HOME / "token"
    path.touch(mode=0o600)
    path.write_text(token)
    try:
        env = {"PYTHONPATH": str(HOME / "lib"), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [
            sys.executable,
            "-m",
            "nodes",
            "--folder",
            str(STATE),
            "enrol",
            "--token",
            f"@{path}",
        ]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    finally:
        path.unlink()
    if done.returncode:
        raise NodeError(
            done.stderr.strip().removeprefix("busbar-agent: ")[-300:] or "the enrolment failed"
        )


def clear_the_way() -> None:
    """A finished installation is refused, an unfinished one is undone, anything else at our places is not ours."""
    journal = Journal.load()
    if journal is not None and journal.committed:
        name = (
            json.loads((STATE / "identity.json").read_text())["node_name"]
            if (STATE / "identity.json").exists()
            else "a node"
        )
        raise NodeError(
            f"This machine is {name} already. To enrol it afresh, run {COMMAND} remove there first."
        )
    if journal is not None:
        say(step="An earlier installation was not finished; it is undone first.", percent=5)
        stop()
        journal.undo()
    for place in (HOME, STATE):
        if place.exists():
            raise NodeError(f"{place} exists and is not ours; move it away.")


def install(bundle: Path, options: dict[str, Any], wait_for_commit: Callable[[], None]) -> None:
    """All of it or nothing."""
    clear_the_way()
    os.umask(0o022)
    journal = Journal()
    try:
        say(step="Unpacking the agent and the data plane.", percent=20)
        journal_first(journal)
        unpack(bundle, journal)
        say(step="Trying the programs.", percent=45)
        try_programs()
        service = NodeService(
            programs=str(HOME / "bin"), softgpu=str(HOME / "softgpu"), modules=str(HOME / "lib"), state=str(STATE), runtime=str(RUNTIME),
            software_gpus=int(options["software_gpus"]), addresses=list(options["addresses"]), port=int(options["data_port"]), python=sys.executable,
        )  # fmt: skip
        service.save(SETTINGS)
        write_command()
        say(step="Enrolling.", percent=60)
        enrol(str(options["token"]))
        if has_systemd():
            write_units(journal, service)
        say(step="Starting the launcher and the agent.", percent=75)
        start(service)
        say(step="Waiting for the appliance to see the node.", percent=85, waiting=True)
        wait_for_commit()
        journal.committed = True
        journal.save()
    except BaseException:
        stop()
        journal.undo()
        raise


def journal_first(journal: Journal) -> None:
    """The journal's own folder is the first thing made and the last thing taken away."""
    missing = [p for p in (HOME, *HOME.parents) if not p.exists()]
    journal.made = [str(p) for p in reversed(missing)]
    for p in reversed(missing):
        p.mkdir(mode=0o755)
    journal.save()


def write_command() -> None:
    COMMAND.write_text(
        f'#!/bin/sh\n# start | stop | remove\nPYTHONDONTWRITEBYTECODE=1 PYTHONPATH={HOME}/lib exec {sys.executable} -m nodes.installation "$@"\n'
    )
    COMMAND.chmod(0o755)


def remove() -> bool:
    """False: there was nothing to remove."""
    journal = Journal.load()
    if journal is None:
        return False
    stop()
    journal.undo()
    if has_systemd():
        subprocess.run(["systemctl", "daemon-reload"], check=False, capture_output=True)
    return True


def check(options: dict[str, Any]) -> list[dict[str, str]]:
    wanted = preflight.Wanted(
        (options["https"][0], options["https"][1]),
        (options["fleet"][0], options["fleet"][1]),
        options["data_port"],
        options["software_gpus"],
        options["appliance_seconds"],
    )
    return [asdict(row) for row in preflight.table(wanted)]


def commit_from_stdin() -> None:
    """The appliance says `commit` once it sees the node; anything else, or silence, undoes all of it."""
    signal.alarm(COMMIT_SECONDS)
    line = sys.stdin.buffer.readline()
    signal.alarm(0)
    if line.strip() != b"commit":
        raise NodeError("The appliance did not confirm the node; everything was undone.")


def interrupted(number: int, frame: object) -> None:
    raise NodeError(
        f"The installation was interrupted ({signal.Signals(number).name}); everything was undone."
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="busbar-node")
    verbs = parser.add_subparsers(dest="verb", required=True)
    for name in ("preflight", "install"):
        verb = verbs.add_parser(name)
        verb.add_argument("--options", required=True, help="a JSON file; - is stdin's first line")
        verb.add_argument("--bundle", type=Path)
        verb.add_argument("--commit", action="store_true", help="do not wait for the word on stdin")
    for name in ("remove", "start", "stop"):
        verbs.add_parser(name)
    given = parser.parse_args(arguments)
    for s in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT, signal.SIGALRM):
        signal.signal(s, interrupted)
    try:
        return act(given)
    except (NodeError, OSError, subprocess.CalledProcessError) as error:
        tell_failure(error)
        return 1


def tell_failure(error: Exception) -> None:
    with contextlib.suppress(OSError):  # nobody listens any more
        say(
            error=str(error) if isinstance(error, NodeError) else f"{type(error).__name__}: {error}"
        )


def act(given: argparse.Namespace) -> int:
    if given.verb in ("preflight", "install"):
        text = (
            sys.stdin.buffer.readline().decode()
            if given.options == "-"
            else Path(given.options).read_text()
        )
        options = json.loads(text)
        if given.verb == "preflight":
            say(table=check(options))
        else:
            install(given.bundle, options, (lambda: None) if given.commit else commit_from_stdin)
            say(done=True, changed=True)
    elif given.verb == "remove":
        say(done=True, changed=remove())
    elif given.verb == "start":
        start(NodeService.load(SETTINGS))
    else:
        stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
