"""Registration of a machine over SSH: its key confirmed, its state checked, the bundle sent, the node awaited, or all of it undone."""

from __future__ import annotations

import contextlib
import json
import logging
import time
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction

from appliance.accounts.models import User
from appliance.activity import tasks
from appliance.activity.models import Task, TaskState
from appliance.activity.services import emit, task_start
from appliance.errors import ApplianceError, Code
from appliance.fleet import bundle, enrolment
from appliance.fleet.models import EnrolmentToken, SshHostKey
from appliance.fleet.ssh import (
    Credentials,
    Destination,
    Host,
    HostKey,
    Lines,
    find_python,
    handshake,
    our_program,
    sign_in,
)
from appliance.inventory import endpoints
from appliance.inventory.models import Node, NodeState
from appliance.telemetry import latest
from appliance.writer import writes

log = logging.getLogger(__name__)

KIND = "node.enrol_ssh"
NODE_SECONDS = 90.0
STEP_SECONDS = 120.0
DEFAULT_DATA_PORT = 8445


@dataclass(frozen=True)
class Registration:
    to: Destination
    addresses: tuple[str, ...]
    """Under which clients reach the node."""
    software_gpus: int
    data_port: int = DEFAULT_DATA_PORT


def confirm_host_key(*, to: Destination, given_sha256: str, actor: str) -> HostKey:
    """The host's key, if it is the pinned one or the one that was confirmed now. Blocks for the handshake."""
    with handshake(to, settings.ENVIRONMENT.ssh_seconds) as (_, shown):
        pass
    pinned = SshHostKey.objects.filter(address=to.address, port=to.port).first()
    if pinned is not None:
        refuse_other_key(pinned.sha256, shown, to)
        return shown
    given = given_sha256.removeprefix("SHA256:").rstrip("=")
    if not given:
        raise ApplianceError(
            Code.HOST_KEY_UNCONFIRMED, f"{to.address} showed the {shown.key_type} key SHA256:{shown.sha256}. Compare it there with "
            "`ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub`; if it is right, send it as host_key_sha256.",
            host_key_sha256=shown.sha256, host_key_type=shown.key_type,
        )  # fmt: skip
    refuse_other_key(given, shown, to)
    pin(to=to, shown=shown, actor=actor)
    return shown


def refuse_other_key(expected: str, shown: HostKey, to: Destination) -> None:
    if shown.sha256 != expected:
        raise ApplianceError(
            Code.HOST_KEY_CHANGED, f"{to.address}:{to.port} shows the key SHA256:{shown.sha256}, and SHA256:{expected} was confirmed. Somebody may be in "
            "between, or the machine was set up anew: only then forget the old key (`busbar node forget-key ADDRESS`). Nothing was sent.",
        )  # fmt: skip


@writes
def pin(*, to: Destination, shown: HostKey, actor: str) -> None:
    SshHostKey.objects.get_or_create(
        address=to.address, port=to.port, defaults={"key_type": shown.key_type, "sha256": shown.sha256, "confirmed_by": actor}
    )  # fmt: skip
    emit(
        "ssh_host_key.confirmed",
        path=f"ssh/{to.address}",
        actor=actor,
        message=f"{actor} confirmed the key SHA256:{shown.sha256} of {to.address}:{to.port}.",
    )


@writes
def forget_key(*, key_id: UUID, actor: str) -> None:
    for key in SshHostKey.objects.filter(pk=key_id):
        key.delete()
        emit(
            "ssh_host_key.forgotten",
            path=f"ssh/{key.address}",
            actor=actor,
            message=f"{actor} forgot the key of {key.address}:{key.port}.",
        )


@writes
def start(
    *, registration: Registration, credentials: Credentials, shown: HostKey, initiator: User
) -> Task:
    """The task; its work begins with the commit. The credentials go to this process's runner and nowhere else."""
    task = task_start(
        kind=KIND,
        path=f"ssh/{registration.to.address}",
        initiator=initiator,
        message=f"Registering {registration.to}.",
    )
    transaction.on_commit(
        lambda: tasks.run(task, partial(register, registration, credentials, shown, initiator))
    )
    return task


def register(
    registration: Registration,
    credentials: Credentials,
    shown: HostKey,
    initiator: User,
    progress: tasks.Progress,
) -> None:
    """The whole of it, on a thread of the task runner."""
    result: dict[str, Any] = {"destination": str(registration.to)}
    progress.say(2, f"Signing in as {registration.to}.")
    with handshake(registration.to, settings.ENVIRONMENT.ssh_seconds) as (transport, key):
        refuse_other_key(shown.sha256, key, registration.to)
        sign_in(transport, registration.to, credentials)
        host = find_python(transport, settings.ENVIRONMENT.ssh_seconds)
        progress.say(8, "Checking the machine.")
        result["preflight"] = preflight(host, credentials, registration)
        progress.result(result)
        refuse_failed(result["preflight"])
        install(host, credentials, registration, initiator, progress, result)


def options(registration: Registration) -> dict[str, Any]:
    e = settings.ENVIRONMENT
    return {
        "https": [e.advertise, e.https_port], "fleet": [e.advertise, e.fleet_port], "data_port": registration.data_port,
        "software_gpus": registration.software_gpus, "addresses": list(registration.addresses), "appliance_seconds": time.time(),
    }  # fmt: skip


def preflight(
    host: Host, credentials: Credentials, registration: Registration
) -> list[dict[str, str]]:
    with our_program(host, credentials, bundle.tar(None), ["preflight", "--options", "-"]) as lines:
        send(lines, options(registration))
        answer = next_line(lines)
        if "table" not in answer:
            raise ApplianceError(
                Code.PREFLIGHT_FAILED,
                f"The checks did not run: {answer.get('error') or lines.last_words()}",
            )
        table: list[dict[str, str]] = answer["table"]
        return table


def refuse_failed(table: list[dict[str, str]]) -> None:
    failed = [row for row in table if row["state"] == "fail"]
    if failed:
        raise ApplianceError(
            Code.PREFLIGHT_FAILED,
            " ".join(f"{row['check']}: {row['found']}. {row['fix']}" for row in failed),
        )


def send(lines: Lines, content: dict[str, Any]) -> None:
    lines.channel.sendall(json.dumps(content).encode() + b"\n")


def next_line(lines: Lines) -> dict[str, Any]:
    try:
        return lines.next(STEP_SECONDS) or {}
    except TimeoutError:
        raise ApplianceError(
            Code.INSTALLATION_FAILED,
            f"The machine was silent for {STEP_SECONDS:.0f} s; it undoes what was made by itself.",
        ) from None


def install(
    host: Host,
    credentials: Credentials,
    registration: Registration,
    initiator: User,
    progress: tasks.Progress,
    result: dict[str, Any],
) -> None:
    progress.say(15, "Sending the bundle.")
    token, text = enrolment.token_create(user=initiator)
    result["token_id"] = str(token.pk)
    progress.result(result)
    try:
        with our_program(
            host,
            credentials,
            bundle.tar(host.version),
            ["install", "--options", "-", "--bundle", "@BUNDLE"],
        ) as lines:
            send(lines, options(registration) | {"token": text})
            follow(lines, progress)
            node = await_node(token.pk)
            result |= {"node_id": str(node.pk), "node": node.name, "confirmed": True}
            progress.result(result)
            progress.say(95, "Confirming.")
            lines.channel.sendall(b"commit\n")
            if not next_line(lines).get("done"):
                raise ApplianceError(
                    Code.INSTALLATION_FAILED,
                    f"The machine did not take the confirmation: {lines.last_words()}",
                )
        unheard = endpoints.silent(node)
        result["silent_endpoints"] = unheard
        progress.result(result)
        doubt = (
            f" Its data plane does not answer from here at {', '.join(unheard)}; a firewall may be in the way of clients, too."
            if unheard
            else ""
        )
        progress.mention(100, f"{registration.to.address} is node {node.name}.{doubt}")
    except (OSError, EOFError) as error:
        withdraw(token.pk)
        raise ApplianceError(
            Code.HOST_UNREACHABLE,
            f"The connection broke ({error or 'it was cut'}); the machine undoes what was made by itself.",
        ) from None
    except (ApplianceError, tasks.Cancelled):
        withdraw(token.pk)
        raise


def follow(lines: Lines, progress: tasks.Progress) -> None:
    """Until the machine waits for us."""
    while True:
        line = next_line(lines)
        if "step" in line:
            progress.say(int(line["percent"]), str(line["step"]))
            if line.get("waiting"):
                return
        else:
            raise ApplianceError(
                Code.INSTALLATION_FAILED,
                str(
                    line.get("error")
                    or lines.last_words()
                    or "The installation ended without a word; it was undone."
                ),
            )


def node_of(token_id: UUID) -> Node | None:
    answer = EnrolmentToken.objects.values_list("answer", flat=True).get(pk=token_id)
    return Node.objects.filter(pk=answer["node_id"]).first() if answer else None


def await_node(token_id: UUID) -> Node:
    """Until its agent reports it, with GPUs and the launcher's port."""
    end = time.monotonic() + NODE_SECONDS
    while time.monotonic() < end:
        node = node_of(token_id)
        if (
            node
            and node.state == NodeState.READY
            and latest.reachable(node.pk)
            and node.endpoints.exists()
            and node.gpus.exists()
        ):
            return node
        time.sleep(0.2)
    raise ApplianceError(
        Code.INSTALLATION_FAILED,
        f"The agent was started and did not report within {NODE_SECONDS:.0f} s; everything was undone.",
    )


def withdraw(token_id: UUID) -> None:
    """The node of a registration that failed: gone here, as it is there."""
    EnrolmentToken.objects.filter(pk=token_id, redeemed_at=None).delete()
    with contextlib.suppress(EnrolmentToken.DoesNotExist):
        if (node := node_of(token_id)) is not None:
            try:
                enrolment.node_remove(node_id=node.pk, actor="system")
            except ApplianceError as error:  # the queue may have placed something there already: the first failure is the one to be told
                log.warning("node %s of a failed registration stays: %s", node.name, error.detail)


def settle_interrupted() -> None:
    """At start: registrations that an earlier process was at. The machines undo theirs when the connection is gone."""
    for task in Task.objects.filter(kind=KIND, state=TaskState.RUNNING):
        result = task.result or {}
        if "token_id" in result and not result.get("confirmed"):
            withdraw(UUID(result["token_id"]))
    tasks.fail_interrupted(
        kind=KIND,
        detail="The appliance was restarted meanwhile and keeps no credentials: credentials needed again. The machine undid what was made.",
    )


def stop(task: Task, user: User) -> None:
    """Its thread notices at its next step: the connection closes, and the machine undoes what was made by itself."""


tasks.register_canceller(KIND, "fleet.enrol", stop)
