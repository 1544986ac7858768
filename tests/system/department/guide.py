"""The commands of docs/guides/department.md, and their execution by the accounts that it names."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import chdir
from dataclasses import dataclass, field
from pathlib import Path

from deploy.supervisor import ROOT
from tests.system.command import in_this_process

GUIDE = ROOT / "docs" / "guides" / "department.md"
PROMPT = re.compile(r"(?P<account>[a-z]+)\$ (?P<command>.+)")
NEW_PASSWORD = "fjord-lamp-9031-quilt"
COMMAND_SECONDS = 120
SHELL_CHARACTERS = set("|&;<>()$`\\*?[]{}~#\n")


@dataclass(frozen=True)
class Step:
    account: str
    command: str
    output: tuple[str, ...]
    """Lines that the output contains."""


def blocks() -> list[list[str]]:
    """Return the lines of each code block of the guide."""
    parts = GUIDE.read_text().split("```\n")
    return [part.splitlines() for part in parts[1::2]]


def steps() -> Iterator[Step]:
    for block in blocks():
        if not PROMPT.match(block[0]):
            continue
        for n, line in enumerate(block):
            if found := PROMPT.fullmatch(line):
                end = next((i for i in range(n + 1, len(block)) if PROMPT.match(block[i])), None)
                yield Step(found["account"], found["command"], tuple(block[n + 1 : end]))


def directory_settings(replaced: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the guide, as a shell reads them."""
    block = next(b for b in blocks() if b[0].startswith("BUSBAR_LDAP_"))
    script = "set -a\n" + with_real_names("\n".join(block), replaced) + "\nenv -0"
    return {k: v for k, v in variables_after(script, {}).items() if k.startswith("BUSBAR_")}


def with_real_names(text: str, replaced: Mapping[str, str]) -> str:
    """Replace the addresses and paths of the guide by those of the test."""
    for name, real in replaced.items():
        text = text.replace(name, real)
    return text


def variables_after(
    script: str, environment: Mapping[str, str], folder: Path = ROOT
) -> dict[str, str]:
    done = subprocess.run(
        ["/bin/bash", "-c", script], env=environment, cwd=folder, capture_output=True, check=True
    )
    pairs = done.stdout.decode().split("\0")[:-1]
    return dict(pair.split("=", 1) for pair in pairs)


@dataclass
class Desk:
    """The folder in which the accounts of the guide work, with a home for each."""

    folder: Path
    replaced: dict[str, str]
    """Addresses and paths of the guide to those of the test."""
    passwords: dict[str, list[str]]
    """Passwords that each account types at its logins."""
    variables: dict[str, dict[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        command = self.folder / "bin" / "busbar"
        command.parent.mkdir()
        command.write_text(f'#!/bin/sh\nexec {sys.executable} -m remoting.cli.main "$@"\n')
        command.chmod(0o755)
        (self.folder / "build").symlink_to(ROOT / "build")

    def environment(self, account: str) -> dict[str, str]:
        own = {
            "HOME": str(self.folder / "home" / account),
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
        }
        return own | self.variables.get(account, {})

    def context(self, account: str) -> Path:
        return self.folder / "home" / account / ".config" / "busbar" / "context.json"

    def perform(self, step: Step) -> None:
        """Run a command of the guide and compare its output.

        What the guide shows is a result if the command succeeds, and its error if it fails.
        """
        command = with_real_names(step.command, self.replaced)
        if command.startswith("export "):
            found = variables_after(
                f"{command} && env -0", self.environment(step.account), self.folder
            )
            names = [n for n in found if n.startswith("BUSBAR_")]
            self.variables.setdefault(step.account, {}).update({n: found[n] for n in names})
            return
        done = self.run(step.account, command)
        shown = done.stdout if done.returncode == 0 else done.stderr
        assert done.returncode == 0 or step.output, (step, done.stderr)
        for line in step.output:
            assert line in shown, (step, done.returncode, done.stdout, done.stderr)
        if made := re.fullmatch(r"busbar user create (\w+)", step.command):
            one_time = done.stdout.splitlines()[-1].split()[1]
            self.passwords[made[1]] = [one_time, NEW_PASSWORD, NEW_PASSWORD]

    def run(self, account: str, command: str) -> subprocess.CompletedProcess[str]:
        """Run a command. Logins read passwords from stdin, because there is no terminal."""
        script = command.replace("busbar login ", "busbar login --password-stdin ")
        text = "".join(f"{word}\n" for word in self.passwords.get(account, ()))
        if arguments := arguments_of(script):
            with chdir(self.folder):
                return in_this_process(self.environment(account), arguments, text)
        return subprocess.run(
            ["/bin/bash", "-c", script],
            env=self.environment(account),
            cwd=self.folder,
            input=text,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            start_new_session=True,
            check=False,
        )


def arguments_of(script: str) -> list[str]:
    """Return those of a busbar command that needs neither a shell nor a process of its own."""
    if set(script) & SHELL_CHARACTERS:
        return []
    name, *arguments = shlex.split(script)
    starts_a_program = not {"run", "attach"}.isdisjoint(arguments)
    return arguments if name == "busbar" and not starts_a_program else []
