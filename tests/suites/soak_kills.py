"""Sessions of eight threads under random kills, a part of `./test --long soak`.

One steady program runs the whole time, through every restart of the launcher, and must compute
correct results. Short programs run beside it; they end, or they or their session servers are
killed. Afterwards no session, process, descriptor, file or GPU memory may be left.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from deploy.supervisor import wait_for
from tests.remoting.conftest import compile_program
from tests.remoting.node import LocalNode, gpu_memory_bytes

THREADS = 8
SHORT_PROGRAMS = 2
KILL_INTERVAL_SECONDS = (0.5, 3.0)
WARM_UP_SECONDS = 30
GROWTH_BYTES = 16 << 20
"""Permitted growth of a process after the warm-up; allocators keep memory that threads freed."""


@dataclass(frozen=True)
class Footprint:
    """Resources of a process."""

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

    def growth(self, later: Footprint) -> list[str]:
        """Return the resources that grew beyond their tolerance; the number of streams varies."""
        problems = []
        if later.descriptors > self.descriptors + 2:
            problems.append(f"{later.descriptors - self.descriptors} descriptors")
        if later.threads > self.threads + THREADS:
            problems.append(f"{later.threads - self.threads} threads")
        if later.resident_bytes > self.resident_bytes + GROWTH_BYTES:
            problems.append(f"{later.resident_bytes - self.resident_bytes} bytes")
        return problems


def processes(node: LocalNode) -> Iterator[int]:
    """Yield the ids of the node's running session servers, including the spare one."""
    variable = b"BUSBAR_SOFTGPU_DIR=" + bytes(node.folder / "gpu")
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            program = (entry / "cmdline").read_bytes().split(b"\0")[0]
            if variable in (entry / "environ").read_bytes() and program.endswith(
                b"/busbar-session"
            ):
                yield int(entry.name)


def find_leftovers(node: LocalNode) -> list[str]:
    """Return the resources that remain although no program runs."""
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
    """One run of the test and the problems that it found."""

    node: LocalNode
    program: Path
    seconds: float
    short_programs: list[subprocess.Popen[str]] = field(default_factory=list)
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

    def count(self, event: str) -> None:
        self.counts[event] = self.counts.get(event, 0) + 1

    def server_of(self, pid: int) -> int:
        return next(
            (s.pid for s in self.node.sessions() if s.client_pid == pid and s.state == "running"), 0
        )

    def replace_ended(self, killed: set[int]) -> None:
        """Replace programs that ended. One that was not killed must have succeeded."""
        for p in [p for p in self.short_programs if p.poll() is not None]:
            out, err = p.communicate()
            self.count("ended normally" if p.pid not in killed else "ended by a kill")
            if p.pid not in killed and p.returncode:
                self.problems.append(
                    f"a program exited with {p.returncode} without a kill: {out}{err[-2000:]}"
                )
            self.short_programs.remove(p)
        while len(self.short_programs) < SHORT_PROGRAMS:
            self.short_programs.append(
                self.start(random.uniform(1, 10), BUSBAR_TRANSPORT=random.choice(["tls", "shm"]))
            )

    def kill_one(self, killed: set[int]) -> None:
        """Kill a short program, its session server or the launcher."""
        victim = random.choice(self.short_programs)
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
                # Any of them may be opening its session.
                killed.update(p.pid for p in self.short_programs)
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
        server, killed, started = self.server_of(steady.pid), set[int](), time.monotonic()
        early: tuple[Footprint, Footprint] | None = None
        late: tuple[Footprint, Footprint] | None = None
        while (now := time.monotonic()) < started + self.seconds - 2 and steady.poll() is None:
            if now > started + min(WARM_UP_SECONDS, self.seconds / 4):
                late = Footprint.of(steady.pid), Footprint.of(server)
                early = early or late
            self.replace_ended(killed)
            time.sleep(random.uniform(*KILL_INTERVAL_SECONDS))
            self.kill_one(killed)
        self.finish(steady)
        for name, before, after in zip(("program", "server"), early or (), late or (), strict=True):
            print(f"{name}: {before} -> {after}", flush=True)
            self.problems += [
                f"the steady session's {name} gained {growth}" for growth in before.growth(after)
            ]

    def finish(self, steady: subprocess.Popen[str]) -> None:
        for p in self.short_programs:
            p.kill()
            p.communicate()
        out, err = steady.communicate(timeout=120)
        last_error = err.strip().splitlines()[-1] if err.strip() else ""
        print(f"steady: {out.strip()}, {last_error}; {self.counts}", flush=True)
        if steady.returncode:
            self.problems.append(
                f"the steady program exited with {steady.returncode}: {out}{err[-2000:]}"
            )


def soak(seconds: float) -> list[str]:
    """Run the test. Return failures and remaining resources."""
    node = LocalNode()
    run = Soak(node, compile_program("soak", node.folder), seconds)
    try:
        before = Footprint.of(node.launcher.pid).descriptors
        run.run()
        with suppress(SystemExit):  # remaining resources are reported below
            wait_for(
                "the end of every session",
                lambda: not find_leftovers(node),
                node.folder / "launcher.log",
                20,
            )
        run.problems += find_leftovers(node)
        if (after := Footprint.of(node.launcher.pid).descriptors) > before:
            run.problems.append(
                f"the launcher has {after - before} more descriptors than at the start"
            )
    finally:
        node.stop()
    with suppress(SystemExit):
        wait_for(
            "the end of every process",
            lambda: not list(processes(node)),
            node.folder / "launcher.log",
            20,
        )
    run.problems += [f"process {pid} outlived the launcher" for pid in processes(node)]
    return run.problems
