"""Sessions of eight threads under random kills: `./test --long soak [SECONDS]`, ten minutes when nothing is said.

One program works the whole time and must end with every number right, through every restart of the launcher. Others come and go beside it: they end, or
they are killed, or their session server is. Afterwards nothing may be left: no session, process, descriptor, file or byte of GPU memory.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from deploy.supervisor import BUILD, wait_for
from tests.remoting.conftest import PROGRAMS, cuda_include
from tests.remoting.node import LocalNode, gpu_memory_bytes

SECONDS = 600
THREADS = 8
PASSING_PROGRAMS = 2
KILL_EVERY_SECONDS = (0.5, 3.0)
WARM_SECONDS = 30
GROWTH_BYTES = 16 << 20
"""What a process may gain after the first half minute: allocators keep what several threads gave back."""


def compiled(folder: Path) -> Path:
    target = folder / "soak"
    flags = ["-O1", f"-I{cuda_include()}", f"-I{PROGRAMS}"]
    subprocess.run(
        [
            "gcc",
            *flags,
            "-o",
            target,
            PROGRAMS / "soak.c",
            f"-L{BUILD / 'client'}",
            "-lcuda",
            "-lpthread",
        ],
        check=True,
    )
    return target


@dataclass(frozen=True)
class Footprint:
    descriptors: int
    resident_bytes: int
    threads: int

    @classmethod
    def of(cls, pid: int) -> Footprint:
        status = dict(
            line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines()
        )
        return cls(
            len(os.listdir(f"/proc/{pid}/fd")),
            int(status["VmRSS"].split()[0]) << 10,
            int(status["Threads"]),
        )

    def grew_to(self, later: Footprint) -> list[str]:
        problems = (
            [f"{later.descriptors - self.descriptors} descriptors"]
            if later.descriptors > self.descriptors + 2
            else []
        )
        problems += (
            [f"{later.threads - self.threads} threads"]
            if later.threads > self.threads + THREADS
            else []
        )  # streams come and go
        return problems + (
            [f"{later.resident_bytes - self.resident_bytes} bytes"]
            if later.resident_bytes > self.resident_bytes + GROWTH_BYTES
            else []
        )


def processes(node: LocalNode) -> Iterator[int]:
    """Session servers of this node that run, the spare one too."""
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            ours = (
                b"BUSBAR_SOFTGPU_DIR=" + bytes(node.folder / "gpu")
                in (entry / "environ").read_bytes()
            )
            if ours and (entry / "cmdline").read_bytes().split(b"\0")[0].endswith(
                b"/busbar-session"
            ):
                yield int(entry.name)


def left_over(node: LocalNode) -> list[str]:
    """What is there though no program runs any more."""
    running = [s for s in node.sessions() if s.state != "closed"]
    found = [f"session {s.session_id} is {s.state}" for s in running]
    found += [
        f"session {s.session_id} holds {s.memory_bytes} bytes"
        for s in node.sessions()
        if s.memory_bytes
    ]
    servers = list(processes(node))
    found += [f"session servers beside the spare one: {servers}"] if len(servers) > 1 else []
    found += (
        [f"{sum(gpu_memory_bytes(node.env))} bytes of GPU memory"]
        if any(gpu_memory_bytes(node.env))
        else []
    )
    return found


def kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


@dataclass
class Soak:
    node: LocalNode
    program: Path
    seconds: float
    passing: list[subprocess.Popen[str]] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def start(self, seconds: float, **environment: str) -> subprocess.Popen[str]:
        command = [str(self.program), f"{seconds:.1f}", str(THREADS), "shared"]
        return subprocess.Popen(
            command,
            env=self.node.remote_environment(**environment),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    def server_of(self, pid: int) -> int:
        return next(
            (s.pid for s in self.node.sessions() if s.client_pid == pid and s.state == "running"), 0
        )

    def settle_passing(self, killed: set[int]) -> None:
        """Programs that ended: one that nobody killed must have been right."""
        for p in [p for p in self.passing if p.poll() is not None]:
            out, err = p.communicate()
            self.count("ended by itself" if p.pid not in killed else "ended by a kill")
            if p.pid not in killed and p.returncode:
                self.problems.append(
                    f"a program that nobody killed ended with {p.returncode}: {out}{err[-2000:]}"
                )
            self.passing.remove(p)
        while len(self.passing) < PASSING_PROGRAMS:
            self.passing.append(
                self.start(random.uniform(1, 10), BUSBAR_TRANSPORT=random.choice(["tls", "shm"]))
            )

    def strike(self, killed: set[int]) -> None:
        """Kills something that is not the steady program or its server."""
        victim = random.choice(self.passing)
        match random.choice(["client", "client", "server", "server", "launcher"]):
            case "client":
                killed.add(victim.pid)
                victim.kill()
                self.count("client killed")
            case "server" if server := self.server_of(victim.pid):
                killed.add(victim.pid)
                kill(server)
                self.count("session server killed")
            case "launcher":
                killed.update(
                    p.pid for p in self.passing
                )  # one of them may be opening its session just now
                self.node.restart()
                self.count("launcher killed")

    def run(self) -> None:
        steady = self.start(self.seconds)
        wait_for(
            "the steady session",
            lambda: self.server_of(steady.pid) > 0,
            self.node.folder / "launcher.log",
            30,
        )
        server, killed, begun = self.server_of(steady.pid), set[int](), time.monotonic()
        early: tuple[Footprint, Footprint] | None = None
        late: tuple[Footprint, Footprint] | None = None
        while (now := time.monotonic()) < begun + self.seconds - 2 and steady.poll() is None:
            if now > begun + min(WARM_SECONDS, self.seconds / 4):
                late = Footprint.of(steady.pid), Footprint.of(server)
                early = early or late
            self.settle_passing(killed)
            time.sleep(
                random.uniform(*KILL_EVERY_SECONDS)
            )  # the pace of the kills, not a wait for something
            self.strike(killed)
        self.finish(steady)
        for name, before, after in zip(("program", "server"), early or (), late or (), strict=True):
            print(f"{name}: {before} -> {after}", flush=True)
            self.problems += [
                f"the steady session's {name} gained {what}" for what in before.grew_to(after)
            ]

    def finish(self, steady: subprocess.Popen[str]) -> None:
        for p in self.passing:
            p.kill()
            p.communicate()
        out, err = steady.communicate(timeout=120)
        print(
            f"steady: {out.strip()}, {err.strip().splitlines()[-1] if err.strip() else ''}; {self.counts}",
            flush=True,
        )
        if steady.returncode:
            self.problems.append(
                f"the steady program ended with {steady.returncode}: {out}{err[-2000:]}"
            )


def soak(seconds: float) -> list[str]:
    """What went wrong or was left."""
    node = LocalNode()
    run = Soak(node, compiled(Path(tempfile.mkdtemp(prefix="busbar-soak-"))), seconds)
    try:
        before = Footprint.of(node.launcher.pid).descriptors
        run.run()
        with suppress(SystemExit):  # what is left is named below
            wait_for(
                "the end of every session",
                lambda: not left_over(node),
                node.folder / "launcher.log",
                20,
            )
        run.problems += left_over(node)
        if (after := Footprint.of(node.launcher.pid).descriptors) > before:
            run.problems.append(
                f"the launcher has {after - before} descriptors more than at the start"
            )
    finally:
        node.stop()
    run.problems += [f"process {pid} outlived the launcher" for pid in processes(node)]
    return run.problems


def main() -> None:
    problems = soak(float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS)
    if problems:
        raise SystemExit("\n".join(problems))
    print("nothing was wrong and nothing was left")


if __name__ == "__main__":
    main()
