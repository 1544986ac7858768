"""The command `busbar node add`: confirms the host key, sends the credentials, follows the task."""

from __future__ import annotations

import getpass
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import typer

from remoting.cli.api import EXIT_CONFLICT, EXIT_USAGE, Api, ApiError
from remoting.cli.prompts import ask, has_terminal

POLL_SECONDS = 0.3
IN_A_LOOP = "In a loop that reads a file, add: </dev/tty"
AGENT = f"Repeat with --agent or --password-stdin. {IN_A_LOOP}"
ONE_LINE = f"Repeat with --password-stdin, and an empty line if sudo requires none. {IN_A_LOOP}"
PASSWORD = f"Repeat with --key, --agent or --password-stdin. {IN_A_LOOP}"
MARKS = {"pass": "ok  ", "warn": "warn", "fail": "FAIL"}


def add(
    api: Api,
    destination: str,
    *,
    key: Path | None,
    agent: bool,
    software_gpus: int,
    addresses: list[str],
    host_key_sha256: str,
    password_stdin: bool,
) -> None:
    """Enrol a machine over SSH and block until the enrolment task ends.

    Raises:
        ApiError: the destination is invalid, or the task failed.
    """
    host, port, username = parse_destination(destination)
    body: dict[str, Any] = {
        "address": host,
        "port": port,
        "username": username,
        "software_gpus": software_gpus,
        "addresses": addresses,
    }
    body |= read_credentials(username, host, key, agent, password_stdin)
    task = start_enrolment(api, body, host_key_sha256)
    follow_task(api, task)


def parse_destination(destination: str) -> tuple[str, int, str]:
    """Return host, port and user of ssh://USER@HOST:PORT. Raises ApiError for any other form."""
    try:
        parts = urlsplit(destination if "//" in destination else f"ssh://{destination}")
        if parts.scheme == "ssh" and parts.hostname:
            port = 22 if parts.port is None else parts.port
            return parts.hostname, port, parts.username or getpass.getuser()
    except ValueError:
        pass  # a bracket or a port that no URL has
    raise ApiError(
        f"Invalid destination {destination}; use: busbar node add ssh://USER@HOST", EXIT_USAGE
    )


def read_credentials(
    username: str, host: str, key: Path | None, agent: bool, stdin: bool
) -> dict[str, Any]:
    if agent:
        return {"use_agent": True}
    if key is not None:
        found: dict[str, Any] = {"private_key": key.read_text()}
        if "ENCRYPTED" in found["private_key"]:
            found["passphrase"] = ask(f"Passphrase of {key}: ", AGENT, reads_stdin=stdin)
        if username != "root":
            found["sudo_password"] = ask(
                f"Password of {username} for sudo (empty if sudo requires none): ",
                ONE_LINE,
                reads_stdin=stdin,
            )
        return found
    return {"password": ask(f"Password of {username}@{host}: ", PASSWORD, reads_stdin=stdin)}


def start_enrolment(api: Api, body: dict[str, Any], host_key_sha256: str) -> dict[str, Any]:
    """Start the enrolment task and return it; prompts for an unconfirmed host key."""
    try:
        return api.request("POST", "nodes/enrol-ssh", body | {"host_key_sha256": host_key_sha256})
    except ApiError as error:
        if error.code != "host_key_unconfirmed":
            raise
        sha256, key_type = error.fields["host_key_sha256"], error.fields["host_key_type"]
    question = f"The {key_type} host key of {body['address']} is\n  SHA256:{sha256}\n"
    if not has_terminal():
        raise ApiError(
            f"{question}There is no terminal to confirm it in: compare it with the key of the"
            " machine, and repeat with --host-key-sha256.",
            EXIT_USAGE,
        )
    typer.confirm(f"{question}Trust this key?", abort=True)
    return api.request("POST", "nodes/enrol-ssh", body | {"host_key_sha256": sha256})


def follow_task(api: Api, task: dict[str, Any]) -> None:
    """Print progress and preflight results until the task ends. Raises ApiError if it failed."""
    message, preflight_printed = "", False
    while True:
        if task["message"] != message:
            message = task["message"]
            print(f"{task['progress_percent']:3d} %  {message}", file=sys.stderr)
        if not preflight_printed and (task["result"] or {}).get("preflight"):
            preflight_printed = True
            for row in task["result"]["preflight"]:
                fix = f"  -> {row['fix']}" if row["fix"] else ""
                print(
                    f"       {MARKS[row['state']]}  {row['check']}: {row['found']}{fix}",
                    file=sys.stderr,
                )
        if task["state"] == "succeeded":
            return
        if task["state"] not in ("queued", "running"):
            raise ApiError((task["error"] or {}).get("detail", task["state"]), EXIT_CONFLICT)
        time.sleep(POLL_SECONDS)
        task = api.request("GET", f"tasks/{task['id']}")
