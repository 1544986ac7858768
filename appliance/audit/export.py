"""Export of sealed records, in the order of the chain."""

from __future__ import annotations

from functools import lru_cache

from django.conf import settings

from appliance.audit.chain import lock_chain
from appliance.audit.models import AuditChain, AuditRecord
from appliance.audit.syslog import SyslogServer, send_hash
from appliance.db.writer import write_transaction

BATCH_RECORDS = 200


def sealed_after(sequence: int, limit: int) -> list[AuditRecord]:
    """Return the first sealed records after a place in the chain."""
    return list(AuditRecord.objects.filter(sequence__gt=sequence).order_by("sequence")[:limit])


def is_configured() -> bool:
    return bool(settings.ENVIRONMENT.audit_syslog)


@lru_cache(1)
def syslog_server() -> SyslogServer:
    return SyslogServer(settings.ENVIRONMENT.audit_syslog, settings.ENVIRONMENT.audit_syslog_ca)


def export_batch() -> int:
    """Send records that were not sent yet to the syslog server, and return their number.

    Blocks. A record is sent again if the appliance ends before it has stored its progress. Raises
    OSError if the server cannot be reached.
    """
    chain = AuditChain.objects.filter(pk=1).first() or AuditChain()
    if not (records := sealed_after(chain.exported_sequence, BATCH_RECORDS)):
        return 0
    syslog_server().send(records)
    store_progress(sequence=records[-1].sequence or 0)
    return len(records)


@write_transaction
def store_progress(*, sequence: int) -> None:
    chain = lock_chain()
    if sequence > chain.exported_sequence:
        chain.exported_sequence = sequence
        chain.save(update_fields=["exported_sequence"])


def announce_hash(known_sequence: int) -> int:
    """Send the newest hash to the local syslog if it is not that of `known_sequence`.

    Returns the sequence number of the newest record.
    """
    chain = AuditChain.objects.filter(pk=1).first() or AuditChain()
    if chain.sequence != known_sequence:
        send_hash(settings.ENVIRONMENT.audit_hash_socket, chain.sequence, chain.hash)
    return chain.sequence
