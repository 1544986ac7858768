"""The chain of audit records: sealing, verification and removal of its beginning.

The sealer numbers records and gives each SHA-256(hash of the previous record, canonical row). A
record that is changed, removed or moved no longer matches the hash of the next one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
from django.db import connection
from django.db.models import Q
from django.utils import timezone

from appliance.audit.models import AuditChain, AuditRecord, Outcome
from appliance.db.writer import write_transaction

BATCH_RECORDS = 200
"""Records of one transaction: the writer thread is held for some milliseconds."""
SETTLE_SECONDS = 64
"""Age at which a refusal is sealed. Repeats are counted in the record for a minute."""
CANONICAL_FIELDS = (
    "id",
    "created_at",
    "actor",
    "token_id",
    "token_name",
    "address",
    "action",
    "object_kind",
    "object_id",
    "object_name",
    "project_id",
    "before",
    "after",
    "outcome",
    "code",
    "count",
    "request_id",
    "sequence",
)
"""The hashed fields. Exports have them all, so that others can compute the hashes."""


def canonical(record: AuditRecord) -> bytes:
    """Return the record as JSON with sorted keys and without white space."""
    return orjson.dumps(
        {name: canonical_value(getattr(record, name)) for name in CANONICAL_FIELDS},
        option=orjson.OPT_SORT_KEYS,
    )


def canonical_value(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds")
    return str(value) if isinstance(value, str) else value


def hash_of(previous_hash: str, record: AuditRecord) -> str:
    """Return the hash of a record that follows the one with `previous_hash`."""
    return hashlib.sha256(previous_hash.encode() + canonical(record)).hexdigest()


def lock_chain() -> AuditChain:
    """Return the ends of the chain, locked until the end of the transaction."""
    AuditChain.objects.get_or_create(pk=1)
    return AuditChain.objects.select_for_update().get(pk=1)


@write_transaction
def seal_batch() -> int:
    """Seal up to BATCH_RECORDS records and return their number."""
    if not (records := settled_records(timezone.now())):
        return 0
    chain = lock_chain()
    # Another appliance on the database may have sealed some before the lock was free.
    records = settled_records(timezone.now())
    for record in records:
        chain.sequence += 1
        record.sequence = chain.sequence
        record.hash = chain.hash = hash_of(chain.hash, record)
    store_seals(records)
    chain.save(update_fields=["sequence", "hash"])
    return len(records)


def settled_records(now: datetime) -> list[AuditRecord]:
    """Return records without a seal that no longer change, in the order of their ids."""
    settled = ~Q(outcome=Outcome.REFUSED) | Q(
        created_at__lt=now - timedelta(seconds=SETTLE_SECONDS)
    )
    unsealed = AuditRecord.objects.filter(sequence=None)
    return list(unsealed.filter(settled).order_by("pk")[:BATCH_RECORDS])


def store_seals(records: Iterable[AuditRecord]) -> None:
    convert = AuditRecord._meta.pk.get_db_prep_value
    with connection.cursor() as cursor:
        cursor.executemany(
            "UPDATE audit_auditrecord SET sequence = %s, hash = %s WHERE id = %s",
            [(r.sequence, r.hash, convert(r.pk, connection)) for r in records],
        )


@dataclass(frozen=True)
class Problem:
    """The first record that is not as it was sealed."""

    sequence: int
    reason: str
    """`changed`: its content or its place; `removed`."""


@dataclass(frozen=True)
class Verification:
    sequence: int
    """The last record that was verified."""
    hash: str
    newest_sequence: int
    """The newest sealed record; greater than `sequence` if there is more to verify."""
    problem: Problem | None = None


def verify(after: int, after_hash: str, limit: int) -> Verification:
    """Verify up to `limit` records that follow the record `after` with this hash.

    After 0, or after a record that retention has removed, it begins at the first one that is kept.
    """
    chain = AuditChain.objects.filter(pk=1).first() or AuditChain()
    if after <= chain.removed_sequence:
        after, after_hash = chain.removed_sequence, chain.removed_hash
    rows = AuditRecord.objects.filter(sequence__gt=after, sequence__lte=chain.sequence)
    for record in rows.order_by("sequence")[:limit]:
        if record.sequence != after + 1:
            break
        if record.hash != hash_of(after_hash, record):
            return Verification(after, after_hash, chain.sequence, Problem(after + 1, "changed"))
        after, after_hash, limit = after + 1, record.hash, limit - 1
    if limit and after < chain.sequence:
        problem = Problem(after + 1, "removed")
    elif after == chain.sequence and after_hash != chain.hash:
        problem = Problem(after, "changed")
    else:
        problem = None
    return Verification(after, after_hash, chain.sequence, problem)


def remove_before(limit: datetime, rows: int, only_exported: bool) -> int:
    """Remove the first records of the chain that are older than `limit`, and return their number.

    Must be called inside a transaction. Keeps the hash of the last one. With `only_exported`,
    records that were not exported stay.
    """
    first = AuditRecord.objects.filter(sequence__gt=0).order_by("sequence").first()
    if first is None or first.created_at >= limit:
        return 0
    chain = lock_chain()
    last = chain.exported_sequence if only_exported else chain.sequence
    kept = AuditRecord.objects.filter(
        sequence__gt=chain.removed_sequence, sequence__lte=last
    ).order_by("sequence")
    expired: list[AuditRecord] = []
    for record in kept[:rows]:
        if record.created_at >= limit:
            break
        expired.append(record)
    if expired:
        chain.removed_sequence = expired[-1].sequence or 0
        chain.removed_hash = expired[-1].hash
        chain.save(update_fields=["removed_sequence", "removed_hash"])
        AuditRecord.objects.filter(sequence__lte=chain.removed_sequence).delete()
    return len(expired)
