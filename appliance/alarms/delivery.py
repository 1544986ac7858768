"""Doing of the actions that are due, with further attempts after failures."""

from __future__ import annotations

import ipaddress
import logging
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import chain
from urllib.parse import urlsplit

from django.db.models import F, Min
from django.utils import timezone

from appliance.activity.events import SYSTEM
from appliance.alarms import scripts, webhook
from appliance.alarms.action_errors import ActionError, ActionRefusedError
from appliance.alarms.lifecycle import note
from appliance.alarms.models import ActionKind, AlarmAction, AlarmDefinition
from appliance.alarms.node_maintenance import set_into_maintenance
from appliance.db.writer import write_transaction
from appliance.runtime.each import run_each
from appliance.runtime.live_settings import current
from appliance.runtime.sealing import Purpose, UnreadableSecretError, unseal
from appliance.runtime.setting_sections import AlarmSettings
from nodes.protocol.limits import printable

log = logging.getLogger(__name__)

MAX_ATTEMPTS = 8
BATCH = 20
OF_DEFINITION = 4
"""Actions of one definition in a batch: as many as there are threads."""
MAX_ERROR = 400
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 10.0, 3600.0
CLAIM_SECONDS = 300.0
"""Time for which no other appliance tries an action that this one does."""
_threads = ThreadPoolExecutor(4, thread_name_prefix="alarm-action")
"""A slow server or script does not delay the others of a batch. These threads use no database."""


def deliver() -> int:
    """Do the actions that are due. Blocks; call it on a thread of its own. Return their number."""
    rows = due_actions()
    claimed = [row for row in rows if count_attempt(row=row)]
    inventory = [row for row in claimed if row.kind == ActionKind.MAINTENANCE]
    others = [row for row in claimed if row.kind != ActionKind.MAINTENANCE]
    results = chain(  # those of the inventory do not wait for servers of others
        ((row, attempt(row)) for row in inventory),
        zip(others, _threads.map(attempt, others), strict=True),
    )
    run_each(
        "alarms: record of action",
        results,
        lambda result: finish(row=result[0], error=result[1]),
        lambda result: f"{result[0].kind} of {result[0].definition.name}",
    )
    return len(rows)


def due_actions() -> list[AlarmAction]:
    """Return actions that are due, few of a definition, so that none keeps the others waiting."""
    due = AlarmAction.objects.filter(next_attempt_at__lte=timezone.now())
    first = due.values("definition_id").annotate(first=Min("next_attempt_at")).order_by("first")
    rows: list[AlarmAction] = []
    for definition_id in first.values_list("definition_id", flat=True)[:BATCH]:
        own = due.filter(definition_id=definition_id).select_related("definition", "alarm__node")
        rows += own.order_by("next_attempt_at")[:OF_DEFINITION]
    return rows[:BATCH]


@write_transaction
def count_attempt(*, row: AlarmAction) -> bool:
    """Count an attempt. Return False if another appliance was first."""
    rows = AlarmAction.objects.filter(pk=row.pk, attempts=row.attempts)
    until = timezone.now() + timedelta(seconds=CLAIM_SECONDS)
    return bool(rows.update(attempts=F("attempts") + 1, next_attempt_at=until))


def attempt(row: AlarmAction) -> Exception | None:
    """Do the action. Return the error if it fails."""
    try:
        perform(row)
    except (ActionError, ActionRefusedError) as error:
        return error
    except Exception as error:
        log.exception("alarms: action %s failed", row.kind)
        return ActionError(f"{type(error).__name__}; see the log of the appliance")
    return None


def perform(row: AlarmAction) -> None:
    definition, limits = row.definition, current(AlarmSettings)
    if row.kind == ActionKind.WEBHOOK and definition.webhook_url:
        secret = secret_of(definition)
        networks = [ipaddress.ip_network(text) for text in limits.webhook_networks]
        webhook.send(definition.webhook_url, secret, row.content, networks)
    elif row.kind == ActionKind.SCRIPT and definition.script:
        scripts.run(definition.script, row.content, limits.script_user, limits.script_seconds)
    elif row.kind == ActionKind.MAINTENANCE and definition.enters_maintenance:
        set_into_maintenance(row)
    else:
        raise ActionRefusedError("the definition no longer has this action")


def secret_of(definition: AlarmDefinition) -> str:
    """Return the key of the webhook; empty if it has none. Raises ActionRefusedError."""
    if not definition.webhook_secret:
        return ""
    try:
        return unseal(definition.webhook_secret, Purpose.WEBHOOK, definition.pk.bytes).decode()
    except UnreadableSecretError:
        raise ActionRefusedError("the key of the webhook is unreadable; set it again") from None


@write_transaction
def finish(*, row: AlarmAction, error: Exception | None) -> None:
    """Record what was done or given up; otherwise let the action be due again."""
    attempts = row.attempts + 1
    if error is None:
        note(row.alarm, "action", SYSTEM, f"Done: {label(row)}.")
    elif isinstance(error, ActionRefusedError) or attempts >= MAX_ATTEMPTS:
        note(row.alarm, "action_failed", SYSTEM, f"Given up: {label(row)}: {text_of(error)}.")
    else:
        log.warning("alarms: %s failed, attempt %d: %s", label(row), attempts, text_of(error))
        pause = min(FIRST_PAUSE_SECONDS * 2**row.attempts, LONGEST_PAUSE_SECONDS)
        again = timezone.now() + timedelta(seconds=pause)
        AlarmAction.objects.filter(pk=row.pk).update(next_attempt_at=again)
        return
    AlarmAction.objects.filter(pk=row.pk).delete()


def text_of(error: Exception) -> str:
    """Return an error without control characters: servers and scripts choose a part of it."""
    return printable(str(error), MAX_ERROR)


def host_of(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


def label(row: AlarmAction) -> str:
    if row.kind == ActionKind.WEBHOOK:
        return f"webhook to {host_of(row.definition.webhook_url) or 'no host'}"
    return f"script {row.definition.script}" if row.kind == ActionKind.SCRIPT else "maintenance"
