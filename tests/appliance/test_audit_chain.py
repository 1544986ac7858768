"""The chain of audit records: what the verification notices, retention and export."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from appliance.accounts.models import CustomRole, RoleBinding, User
from appliance.audit import chain, export, syslog
from appliance.audit.models import AuditChain, AuditRecord
from appliance.controller.retention import RULES
from appliance.db.writer import write_transaction
from appliance.fleet.certificates import load_authority, server_certificate
from tests.appliance.conftest import Cast, body

Clients = Callable[[User | None], Any]
pytestmark = pytest.mark.django_db


def add_records(count: int, **columns: Any) -> list[AuditRecord]:
    """Add sealed records and return all sealed ones."""
    for n in range(count):
        AuditRecord.objects.create(
            actor="olga", action="pools_create", after={"name": f"{n}", "weight": 1.5}, **columns
        )
    while chain.seal_batch():
        pass
    return sealed()


def sealed() -> list[AuditRecord]:
    return list(AuditRecord.objects.exclude(sequence=None).order_by("sequence"))


def problem() -> tuple[int, str] | None:
    found = chain.verify(0, "", 1000).problem
    return (found.sequence, found.reason) if found else None


def test_sealed_records_verify_in_parts() -> None:
    add_records(3)
    add_records(4)
    first = chain.verify(0, "", 5)
    assert (first.sequence, first.newest_sequence, first.problem) == (5, 7, None)
    rest = chain.verify(first.sequence, first.hash, 5)
    assert (rest.sequence, rest.problem) == (7, None)
    assert rest.hash == AuditChain.objects.get().hash


@pytest.mark.parametrize(
    "columns",
    [{"actor": "eve"}, {"after": {"name": "9"}}, {"code": "denied"}, {"hash": "0" * 64}],
    ids=str,
)
@pytest.mark.parametrize("place", [0, 2, 4])
def test_changed_record_is_noticed(place: int, columns: dict[str, Any]) -> None:
    record = add_records(5)[place]
    AuditRecord.objects.filter(pk=record.pk).update(**columns)
    assert problem() == (place + 1, "changed")


@pytest.mark.parametrize("place", [0, 2, 4])
def test_removed_record_is_noticed(place: int) -> None:
    add_records(5)[place].delete()
    assert problem() == (place + 1, "removed")


def test_removed_record_is_noticed_when_the_others_move_up() -> None:
    records = add_records(5)
    records[1].delete()
    for record in records[2:]:
        AuditRecord.objects.filter(pk=record.pk).update(sequence=(record.sequence or 0) - 1)
    assert problem() == (2, "changed")


def test_swapped_records_are_noticed() -> None:
    second, fourth = add_records(5)[1:4:2]
    for record, sequence in ((second, 99), (fourth, 2), (second, 4)):
        AuditRecord.objects.filter(pk=record.pk).update(sequence=sequence)
    assert problem() == (2, "changed")


def test_replaced_newest_hash_is_noticed() -> None:
    """A user of the database changes the newest record and computes its hash again."""
    *_, before, newest = add_records(3)
    newest.actor = "eve"
    newest.hash = chain.hash_of(before.hash, newest)
    newest.save()
    assert problem() == (3, "changed")


def test_retention_removes_old_records_and_the_rest_verifies() -> None:
    ago = timezone.now() - timedelta(days=settings.ENVIRONMENT.retain_audit_days, seconds=1)
    add_records(3, created_at=ago)
    add_records(2)
    (rule,) = [rule for rule in RULES if rule.model is AuditRecord]
    assert rule.delete_batch(timezone.now()) == 3 and rule.delete_batch(timezone.now()) == 0
    assert [r.sequence for r in sealed()] == [4, 5] and problem() is None
    AuditRecord.objects.filter(sequence=4).delete()
    assert problem() == (4, "removed")


def test_retention_keeps_records_that_were_not_exported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings.ENVIRONMENT, "audit_syslog", "log.example.org:6514")
    ago = timezone.now() - timedelta(days=settings.ENVIRONMENT.retain_audit_days, seconds=1)
    add_records(4, created_at=ago)
    (rule,) = [rule for rule in RULES if rule.model is AuditRecord]
    assert rule.delete_batch(timezone.now()) == 0
    export.store_progress(sequence=2)
    assert rule.delete_batch(timezone.now()) == 2 and rule.delete_batch(timezone.now()) == 0
    assert [r.sequence for r in sealed()] == [3, 4] and problem() is None


def test_sealing_many_records_takes_few_queries() -> None:
    for n in range(100):
        AuditRecord.objects.create(actor="a", action="b", object_name=f"{n}")
    with CaptureQueriesContext(connection) as captured:
        assert chain.seal_batch() == 100
    assert len(captured) <= 12


def test_rest_verifies_and_exports_the_chain(cast: Cast, client_of: Clients) -> None:
    admin = client_of(cast.admin)
    add_records(3)
    newest = len(sealed())
    found = body(admin.get("/api/v1/audit/verification"))
    assert found["sequence"] == newest and found["problem"] is None
    export_all = admin.get("/api/v1/audit/export?after=1")
    lines = [json.loads(line) for line in export_all.content.splitlines()]
    assert [line["sequence"] for line in lines] == list(range(2, newest + 1))
    AuditRecord.objects.filter(sequence=2).update(actor="eve")
    found = body(admin.get("/api/v1/audit/verification"))
    assert found["problem"] == {"sequence": 2, "reason": "changed"} and found["sequence"] == 1
    after = f"after={found['sequence']}&after_hash={found['hash']}"
    assert body(admin.get(f"/api/v1/audit/verification?{after}"))["problem"]["sequence"] == 2
    assert admin.get("/api/v1/audit/export?after=x").status_code == 400


@pytest.mark.parametrize("wrong", ["limit=2001", "limit=-1", "after=-1", f"after={(1 << 62) + 1}"])
def test_bounds_of_the_audit_are_those_of_its_description(
    cast: Cast, client_of: Clients, wrong: str
) -> None:
    admin = client_of(cast.admin)
    for path in ("export", "verification"):
        assert admin.get(f"/api/v1/audit/{path}?limit=0&after={1 << 62}").status_code == 200
        assert admin.get(f"/api/v1/audit/{path}?{wrong}").status_code == 400


def test_verification_refuses_what_is_no_hash(cast: Cast, client_of: Clients) -> None:
    admin = client_of(cast.admin)
    for right in ("", "0" * 64):
        address = f"/api/v1/audit/verification?after_hash={right}"
        assert admin.get(address).status_code == 200
    for wrong in ("0" * 63, "0" * 65, "F" * 64, "0" * 64 + "%0A"):
        assert admin.get(f"/api/v1/audit/verification?after_hash={wrong}").status_code == 400


def test_auditor_reads_the_audit_and_nothing_else(cast: Cast, client_of: Clients) -> None:
    CustomRole.objects.create(name="auditor", privileges=["audit.read"])
    auditor = User.objects.create(username="audrey")
    RoleBinding.objects.create(user=auditor, role="auditor")
    client = client_of(auditor)
    for path in ("audit", "audit/export", "audit/verification"):
        assert client.get(f"/api/v1/{path}").status_code == 200
    for path in ("nodes", "pools", "events", "users"):
        assert client.get(f"/api/v1/{path}").status_code == 403


def test_auditor_of_a_project_sees_records_of_its_objects_only(
    cast: Cast, client_of: Clients
) -> None:
    for user in (cast.alice, cast.admin):
        client_of(user).post(
            "/api/v1/allocations", {"percent": 5, "allow_pending": True}, format="json"
        )
    ada, admin = client_of(cast.ada), client_of(cast.admin)
    query = "audit?object_kind=allocation"
    records = body(admin.get(f"/api/v1/{query}"))["items"]
    assert len(records) == 2
    assert body(ada.get("/api/v1/audit"))["items"] == []
    assert ada.get(f"/api/v1/audit/{records[0]['id']}").status_code == 404
    assert ada.get("/api/v1/audit/export").status_code == 403
    assert ada.get("/api/v1/audit/verification").status_code == 403
    RoleBinding.objects.create(
        user=cast.ada, project_id=records[0]["project_id"], role="administrator"
    )
    assert len(body(ada.get("/api/v1/audit"))["items"]) == 2


class SyslogListener:
    """A TLS server that keeps the messages of one connection after the other."""

    def __init__(self, folder: Path) -> None:
        certificate, key = server_certificate(load_authority(folder), folder, ["127.0.0.1"])
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self.messages: list[str] = []
        self.context, self.socket = context, socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.socket.getsockname()[1]}"
        self.connection: ssl.SSLSocket | None = None
        self.closed = threading.Event()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        while True:
            try:
                raw, _ = self.socket.accept()
            except OSError:
                return
            try:
                with self.context.wrap_socket(raw, server_side=True) as self.connection:
                    self.read(self.connection)
            except OSError:
                raw.close()
            self.closed.set()

    def read(self, connection: ssl.SSLSocket) -> None:
        with connection.makefile("rb") as stream:
            while length := b"".join(iter(lambda: stream.read(1).strip(), b"")):
                self.messages.append(stream.read(int(length)).decode())

    def wait_for(self, count: int) -> None:
        async def wait() -> None:
            async with asyncio.timeout(10):
                while len(self.messages) < count:
                    await asyncio.sleep(0.01)

        asyncio.run(wait())


@pytest.fixture
def listener(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SyslogListener]:
    made = SyslogListener(tmp_path)
    monkeypatch.setattr(settings.ENVIRONMENT, "audit_syslog", made.address)
    monkeypatch.setattr(settings.ENVIRONMENT, "audit_syslog_ca", tmp_path / "ca.pem")
    export.syslog_server.cache_clear()
    yield made
    export.syslog_server().close()
    export.syslog_server.cache_clear()
    made.socket.close()


def test_records_reach_a_syslog_server_over_tls_once(listener: SyslogListener) -> None:
    records = add_records(3)
    assert export.export_batch() == 3 and export.export_batch() == 0
    listener.wait_for(3)
    for record, message in zip(records, listener.messages, strict=True):
        header, _, content = message.partition(" - audit - ")
        assert header.startswith("<109>1 ") and header.split()[3] == "busbar"
        assert json.loads(content)["hash"] == record.hash


def test_export_continues_on_a_new_connection(listener: SyslogListener) -> None:
    add_records(1)
    export.export_batch()
    listener.wait_for(1)
    assert listener.connection is not None
    listener.connection.shutdown(socket.SHUT_RDWR)
    listener.closed.wait(10)
    add_records(1)
    assert export.export_batch() == 1
    listener.wait_for(2)


def test_syslog_server_of_another_ca_gets_no_records(
    listener: SyslogListener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings.ENVIRONMENT, "audit_syslog_ca", None)
    add_records(1)
    with pytest.raises(ssl.SSLCertVerificationError):
        export.export_batch()
    assert AuditChain.objects.get().exported_sequence == 0 and not listener.messages


def test_newest_hash_reaches_the_local_syslog(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = add_records(2)
    monkeypatch.setattr(settings.ENVIRONMENT, "audit_hash_socket", tmp_path / "log")
    assert export.announce_hash(0) == 2, "without a socket"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as local:
        local.bind(str(tmp_path / "log"))
        assert export.announce_hash(2) == 2
        assert export.announce_hash(0) == 2
        text = local.recv(1000).decode()
        assert text == f"<109>busbar: audit: sequence=2 sha256={records[-1].hash}"
        local.setblocking(False)
        with pytest.raises(BlockingIOError):
            local.recv(1000)


def test_framing_counts_bytes() -> None:
    assert syslog.frame("é".encode()) == b"2 \xc3\xa9"


def test_record_and_its_change_are_rolled_back_together(cast: Cast) -> None:
    before = AuditRecord.objects.count()

    @write_transaction
    def fail() -> None:
        from appliance.accounts.groups import group_create

        group_create(values={"name": "students"})
        raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert AuditRecord.objects.count() == before
