"""Enrolment of a machine over SSH, as a background task with rollback.

Steps: check the host key, sign in, preflight, send and install the bundle, wait for the node,
commit. Any failure rolls back the machine and removes the node from the appliance.
"""

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
from appliance.activity import task_runner
from appliance.activity.models import Task, TaskState
from appliance.activity.tasks import fail_interrupted, register_canceller, task_start
from appliance.api.errors import ApplianceError, Code
from appliance.audit.records import record_created
from appliance.db import origin
from appliance.db.writer import write_transaction
from appliance.fleet import bundle, enrolment
from appliance.fleet.host_keys import require_key
from appliance.fleet.installer_messages import (
    MAX_STEPS,
    invalid_message,
    parse_checks,
    parse_step,
)
from appliance.fleet.models import EnrolmentToken
from appliance.fleet.ssh import (
    Credentials,
    Destination,
    Host,
    HostKey,
    MessageReader,
    find_python,
    open_transport,
    run_installer,
    sign_in,
)
from appliance.inventory import endpoints
from appliance.inventory.models import Node, NodeState
from appliance.runtime.live_settings import current
from appliance.runtime.setting_sections import NodeSettings
from appliance.telemetry import reachability

log = logging.getLogger(__name__)

KIND = "node.enrol_ssh"
NODE_TIMEOUT_SECONDS = 90.0
STEP_TIMEOUT_SECONDS = 120.0
DEFAULT_DATA_PORT = 8445
ROLLBACK = "the installation on the machine is rolled back"


@dataclass(frozen=True)
class EnrolmentRequest:
    to: Destination
    addresses: tuple[str, ...]
    """Addresses at which clients reach the node."""
    software_gpus: int
    data_port: int = DEFAULT_DATA_PORT


@write_transaction
def start_enrolment(
    *, request: EnrolmentRequest, credentials: Credentials, host_key: HostKey, initiator: User
) -> Task:
    """Create the task. Its work starts with the commit.

    The credentials exist only in the memory of this process while the task runs.
    """
    task = task_start(
        kind=KIND,
        path=f"ssh/{request.to.address}",
        initiator=initiator,
        message=f"Enrolling {request.to}.",
    )
    record_created(task)
    work = origin.carry(partial(enrol_machine, request, credentials, host_key, initiator))
    transaction.on_commit(lambda: task_runner.submit(task, work))
    return task


def enrol_machine(
    request: EnrolmentRequest,
    credentials: Credentials,
    host_key: HostKey,
    initiator: User,
    progress: task_runner.Progress,
) -> None:
    """Perform all steps on a thread of the task runner. Raises ApplianceError on a failure."""
    result: dict[str, Any] = {"destination": str(request.to)}
    progress.report(2, f"Signing in as {request.to}.")
    timeout = current(NodeSettings).ssh_seconds
    with open_transport(request.to, timeout) as (transport, presented):
        require_key(host_key.sha256, presented, request.to)
        sign_in(transport, request.to, credentials)
        host = find_python(transport, timeout)
        progress.report(8, "Checking the machine.")
        result["preflight"] = run_preflight(host, credentials, request)
        progress.set_result(result)
        refuse_failed_checks(result["preflight"])
        install(host, credentials, request, initiator, progress, result)


def installer_options(request: EnrolmentRequest) -> dict[str, Any]:
    e = settings.ENVIRONMENT
    return {
        "https": [e.advertise, e.https_port],
        "fleet": [e.advertise, e.fleet_port],
        "data_port": request.data_port,
        "software_gpus": request.software_gpus,
        "addresses": list(request.addresses),
        "appliance_seconds": time.time(),
    }


def run_preflight(
    host: Host, credentials: Credentials, request: EnrolmentRequest
) -> list[dict[str, str]]:
    """Return the table of checks: check, state, found and fix of each row."""
    arguments = ["preflight", "--options", "-"]
    with run_installer(host, credentials, bundle.build_tar(None), arguments) as reader:
        send(reader, installer_options(request))
        message = next_message(reader)
        if "table" not in message:
            raise ApplianceError(
                Code.PREFLIGHT_FAILED,
                f"The checks did not run: {message.get('error') or reader.last_error_line()}",
            )
        return parse_checks(message)


def refuse_failed_checks(table: list[dict[str, str]]) -> None:
    """Raise ApplianceError with PREFLIGHT_FAILED if a row has the state `fail`."""
    failed = [row for row in table if row["state"] == "fail"]
    if failed:
        raise ApplianceError(
            Code.PREFLIGHT_FAILED,
            " ".join(f"{row['check']}: {row['found']}. {row['fix']}" for row in failed),
        )


def send(reader: MessageReader, content: dict[str, Any]) -> None:
    reader.channel.sendall(json.dumps(content).encode() + b"\n")


def next_message(reader: MessageReader) -> dict[str, Any]:
    """Return the installer's next message; empty if it has ended."""
    try:
        return reader.next(STEP_TIMEOUT_SECONDS) or {}
    except TimeoutError:
        raise ApplianceError(
            Code.INSTALLATION_FAILED,
            f"No progress for {STEP_TIMEOUT_SECONDS:.0f} s; {ROLLBACK}.",
        ) from None


def install(
    host: Host,
    credentials: Credentials,
    request: EnrolmentRequest,
    initiator: User,
    progress: task_runner.Progress,
    result: dict[str, Any],
) -> None:
    """Install the node and report the result. Removes the node again after a failure."""
    progress.report(15, "Sending the bundle.")
    token, text = enrolment.token_create(user=initiator)
    result["token_id"] = str(token.pk)
    progress.set_result(result)
    options = installer_options(request) | {"token": text}
    try:
        node = install_and_commit(host, credentials, options, token.pk, progress, result)
        silent = endpoints.closed_endpoints(node)
    except (OSError, EOFError) as error:
        withdraw(token.pk)
        raise ApplianceError(
            Code.HOST_UNREACHABLE,
            f"The connection broke ({error or 'connection closed'}); {ROLLBACK}.",
        ) from None
    except Exception:
        withdraw(token.pk)
        raise
    result["silent_endpoints"] = silent
    progress.set_result(result)
    warning = (
        f" The appliance cannot connect to its data port at {', '.join(silent)};"
        " a firewall may block clients, too."
        if silent
        else ""
    )
    progress.report_final(100, f"{request.to.address} is node {node.name}.{warning}")


def install_and_commit(
    host: Host,
    credentials: Credentials,
    options: dict[str, Any],
    token_id: UUID,
    progress: task_runner.Progress,
    result: dict[str, Any],
) -> Node:
    """Run the installer, wait for the node to report, and send the commit."""
    arguments = ["install", "--options", "-", "--bundle", "@BUNDLE"]
    tar = bundle.build_tar(host.version)
    with run_installer(host, credentials, tar, arguments) as reader:
        send(reader, options)
        follow_progress(reader, progress)
        node = wait_for_node(token_id)
        result |= {"node_id": str(node.pk), "node": node.name, "confirmed": True}
        progress.set_result(result)
        progress.report(95, "Confirming.")
        reader.channel.sendall(b"commit\n")
        if not next_message(reader).get("done"):
            raise ApplianceError(
                Code.INSTALLATION_FAILED,
                f"The machine did not acknowledge the commit: {reader.last_error_line()}",
            )
    return node


def follow_progress(reader: MessageReader, progress: task_runner.Progress) -> None:
    """Copy the installer's progress to the task until it waits for the commit."""
    for _ in range(MAX_STEPS):
        message = next_message(reader)
        if "step" not in message:
            raise ApplianceError(
                Code.INSTALLATION_FAILED,
                str(
                    message.get("error")
                    or reader.last_error_line()
                    or f"The installer ended without an error message; {ROLLBACK}."
                ),
            )
        step = parse_step(message)
        progress.report(step.percent, step.text)
        if step.waiting:
            return
    raise invalid_message()


def node_of_token(token_id: UUID) -> Node | None:
    """Return the node that redeemed the token, or None if it is not redeemed."""
    answer = EnrolmentToken.objects.values_list("answer", flat=True).get(pk=token_id)
    return Node.objects.filter(pk=answer["node_id"]).first() if answer else None


def wait_for_node(token_id: UUID) -> Node:
    """Wait until the node is ready and has reported its GPUs and endpoints."""
    end = time.monotonic() + NODE_TIMEOUT_SECONDS
    while time.monotonic() < end:
        node = node_of_token(token_id)
        if (
            node
            and node.state == NodeState.READY
            and reachability.is_reachable(node.pk)
            and node.endpoints.exists()
            and node.gpus.exists()
        ):
            return node
        time.sleep(0.2)
    raise ApplianceError(
        Code.INSTALLATION_FAILED,
        f"The agent did not report within {NODE_TIMEOUT_SECONDS:.0f} s after its start;"
        f" {ROLLBACK}.",
    )


def withdraw(token_id: UUID) -> None:
    """Delete the token, or remove the node that redeemed it."""
    EnrolmentToken.objects.filter(pk=token_id, redeemed_at=None).delete()
    with contextlib.suppress(EnrolmentToken.DoesNotExist):
        if (node := node_of_token(token_id)) is not None:
            try:
                enrolment.node_remove(node_id=node.pk, actor="system")
            except ApplianceError as error:
                # The scheduler may have placed an allocation on it already. Do not hide the
                # failure that led here.
                log.warning(
                    "ssh_enrolment: node %s of a failed enrolment is not removed: %s",
                    node.name,
                    error.detail,
                )


def fail_interrupted_enrolments() -> None:
    """Fail the enrolments that an earlier process left running. Called at start.

    The machines roll back by themselves when their SSH connection ends.
    """
    for task in Task.objects.filter(kind=KIND, state=TaskState.RUNNING):
        result = task.result or {}
        if "token_id" in result and not result.get("confirmed"):
            withdraw(UUID(result["token_id"]))
    fail_interrupted(
        kind=KIND,
        detail="The appliance was restarted and does not store credentials: credentials needed"
        f" again; {ROLLBACK}.",
    )


def cancel_enrolment(task: Task, user: User) -> None:
    """Do nothing: the next progress report of the work raises TaskCancelled.

    That closes the SSH connection, and the machine rolls back.
    """


register_canceller(KIND, "fleet.enrol", cancel_enrolment)
