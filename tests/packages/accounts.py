"""Users of machines with nothing of ours, who install the client by the line of the appliance."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass

from tests.packages.machines import Machine
from tests.system.conftest import Pool


@dataclass(frozen=True)
class Account:
    """An account of a machine; `root` exists on each."""

    machine: Machine
    name: str

    @property
    def home(self) -> str:
        return "/root" if self.name == "root" else f"/home/{self.name}"

    def command(self, script: str, *, network: bool, **variables: str) -> list[str]:
        """Return a command line that runs a shell script in the home."""
        switch = ["setpriv", "--reuid", self.name, "--regid", self.name, "--init-groups"]
        settings = {"HOME": self.home, "PATH": f"{self.home}/.local/bin:/usr/bin:/bin:/usr/sbin"}
        return self.machine.command(
            *([] if self.name == "root" else switch),
            *("sh", "-c", f"cd && {script}"),
            network=network,
            **(settings | variables),
        )

    def start(self, script: str, **variables: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(script, network=True, **variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(
        self, script: str, *, network: bool = True, stdin: str = "", **variables: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(script, network=network, **variables),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )

    def run_well(self, script: str, stdin: str = "") -> str:
        """Run a script that must succeed. Return its output."""
        done = self.run(script, stdin=stdin)
        assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-1000:]
        return done.stdout


def account(machine: Machine, name: str) -> Account:
    """Return an account, which is made unless it is root's."""
    if name != "root":
        done = machine.run("useradd", "--create-home", "--shell", "/bin/sh", name)
        assert done.returncode == 0, done.stderr
    return Account(machine, name)


def line_of(pool: Pool) -> str:
    """Return the line to paste on a new machine."""
    return str(pool.api.request("GET", "client-installation")["curl_line"])


def sign_in(user: Account, pool: Pool, token: str) -> None:
    line = f"busbar login {pool.stack.url} --ca-sha256 {pool.stack.ca_fingerprint()} --token-stdin"
    user.run_well(line, stdin=f"{token}\n")


def assert_told(done: subprocess.CompletedProcess[str], code: int, *parts: str) -> None:
    """Require an exit code and a sentence that has these parts, and no traceback."""
    assert done.returncode == code, done.stdout + done.stderr
    assert all(part in done.stderr for part in parts), done.stderr
    assert "Traceback" not in done.stderr
