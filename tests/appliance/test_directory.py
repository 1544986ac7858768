"""Sign-in with the password of a directory, and the end of access of those who leave it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.hashers import make_password
from django.core.management import CommandError, call_command
from django.utils import timezone
from rest_framework.test import APIClient

from appliance.accounts.bindings import grants_by_user
from appliance.accounts.models import Group, GroupMember, RoleBinding, Source, User
from appliance.api.errors import ApplianceError
from appliance.audit.models import AuditRecord
from appliance.signin import directory, second_factors, totp
from appliance.signin.directory import DirectoryUnavailableError, UnusableEntryError
from appliance.signin.directory_sync import compare
from appliance.signin.models import Passkey, SecondFactor
from tests.appliance.conftest import Cast, body
from tests.appliance.directory_server import (
    ADMINS_DN,
    BASE,
    PASSWORD,
    SERVICE_DN,
    SERVICE_PASSWORD,
    DirectoryServer,
    dn_of,
    started,
)
from tests.appliance.test_account_names import SCRIPTS

pytestmark = pytest.mark.django_db
Configure = Callable[..., None]


@pytest.fixture
def configure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Configure:
    """Return a function that sets settings of the directory."""

    def configure(server: DirectoryServer, **changes: Any) -> None:
        secret = tmp_path / "bind-password"
        secret.write_text(f"{SERVICE_PASSWORD}\n")
        values = {
            "url": server.url,
            "ca": server.folder / "ca.pem",
            "base": BASE,
            "bind_dn": SERVICE_DN,
            "bind_password_file": secret,
            "groups": {ADMINS_DN: "gpu-admins"},
        }
        for name, value in (values | changes).items():
            monkeypatch.setattr(settings.ENVIRONMENT, f"ldap_{name}", value)

    return configure


@pytest.fixture
def server(tmp_path: Path, configure: Configure, cast: Cast) -> Iterator[DirectoryServer]:
    with started(tmp_path / "directory") as running:
        configure(running)
        yield running


def log_in(username: str, password: str = PASSWORD, **fields: str) -> Any:
    content = {"username": username, "password": password} | fields
    return APIClient().post("/api/v1/login", content, format="json")


def client_of_login(username: str) -> Any:
    token = body(log_in(username))["token"]
    return APIClient(headers={"Authorization": f"Bearer {token}"})


def groups_of(username: str) -> set[str]:
    members = GroupMember.objects.filter(user__username=username)
    return set(members.values_list("group__name", flat=True))


@pytest.mark.parametrize("transport", ["url", "starttls_url"])
def test_first_sign_in_creates_the_account(
    server: DirectoryServer, configure: Configure, transport: str
) -> None:
    configure(server, url=getattr(server, transport))
    assert body(client_of_login("erin").get("/api/v1/me"))["source"] == "ldap"
    user = User.objects.get(username="erin")
    assert user.email == "erin@example.org" and not user.has_usable_password()
    assert not user.is_service and user.external_identity.issuer == "ldap"
    assert groups_of("erin") == {"gpu-admins"} and groups_of("frank") == set()
    created = AuditRecord.objects.get(object_kind="user", object_name="erin")
    assert created.actor == "erin" and created.action == "login_create"


def test_mapped_group_grants_its_roles(server: DirectoryServer) -> None:
    group = Group.objects.create(name="gpu-admins")
    RoleBinding.objects.create(group=group, role="operator")
    assert client_of_login("erin").get("/api/v1/nodes").status_code == 200
    assert client_of_login("frank").get("/api/v1/nodes").status_code == 403


@pytest.mark.parametrize(
    ("username", "password"),
    [
        ("erin", "wrong"),
        ("erin", " "),
        ("unknown", PASSWORD),
        ("*", PASSWORD),
        ("eri*", PASSWORD),
        ("erin)(uid=*", PASSWORD),
        ("erin))(|(uid=*", PASSWORD),
        ("erin\\2a", PASSWORD),
        (dn_of("erin"), PASSWORD),
        ("x" * 151, PASSWORD),
    ],
)
def test_wrong_names_and_passwords_are_refused(
    server: DirectoryServer, username: str, password: str
) -> None:
    assert log_in(username, password).status_code in (400, 401)
    assert not User.objects.filter(source=Source.LDAP).exists()


def test_empty_password_is_not_sent(server: DirectoryServer) -> None:
    assert directory.verify("erin", "") is None
    assert directory.verify("erin\0", PASSWORD) is None
    assert directory.verify("erin", PASSWORD) is not None


def test_directory_signs_in_people_of_each_script(server: DirectoryServer) -> None:
    for script in ("persian", "devanagari-nukta", "bengali", "sinhala", "thai", "lao"):
        name = SCRIPTS[script]
        server.add(script, uid=name)
        answer = log_in(name, PASSWORD)
        assert answer.status_code == 200, (script, body(answer))
        assert User.objects.filter(username=name, source=Source.LDAP).exists(), script


def test_person_of_the_directory_never_gets_a_local_name_in_other_case(
    server: DirectoryServer, cast: Cast
) -> None:
    server.add("Alice")
    assert log_in("Alice", PASSWORD).status_code == 409
    assert not User.objects.filter(source=Source.LDAP).exists()


def test_name_is_that_of_the_directory_however_it_is_typed(server: DirectoryServer) -> None:
    assert log_in("ERIN").status_code == log_in("erin").status_code == 200
    assert [u.username for u in User.objects.filter(source=Source.LDAP)] == ["erin"]


def test_account_of_the_appliance_is_not_taken_over(server: DirectoryServer, cast: Cast) -> None:
    server.add("admin")
    User.objects.filter(username="admin").update(password=make_password("local password"))
    assert log_in("admin").status_code == 401
    assert log_in("admin", "local password").status_code == 200
    assert log_in("ADMIN").status_code == 409, "the entry has the name of another account"
    assert User.objects.get(username="admin").source == ""


def test_new_person_with_the_name_of_another_gets_no_access(server: DirectoryServer) -> None:
    assert log_in("frank").status_code == 200
    server.remove("frank")
    server.add("frank")
    assert log_in("frank").status_code == 409


def test_renamed_person_keeps_the_account(server: DirectoryServer) -> None:
    assert log_in("grace").status_code == 200
    with server.administered() as connection:
        connection.modify_dn(dn_of("grace"), "uid=hopper")
    assert log_in("hopper").status_code == 200
    compare()
    assert User.objects.get(source=Source.LDAP).is_active


class TestComparison:
    def test_person_who_is_removed_loses_access_until_the_return(
        self, server: DirectoryServer
    ) -> None:
        client = client_of_login("frank")
        compare()
        assert client.get("/api/v1/me").status_code == 200
        server.remove("frank")
        compare()
        assert client.get("/api/v1/me").status_code == 401
        assert log_in("frank").status_code == 401
        record = AuditRecord.objects.get(object_name="frank", after__is_active=False)
        assert record.actor == "directory"

    def test_person_who_meets_the_filter_again_has_access_again(
        self, server: DirectoryServer, configure: Configure
    ) -> None:
        client = client_of_login("frank")
        without_mail = "(&(uid={username})(!(mail=frank@example.org)))"
        configure(server, user_filter=without_mail)
        compare()
        assert client.get("/api/v1/me").status_code == 401 and log_in("frank").status_code == 401
        server.change(dn_of("frank"), "mail", "f@example.org")
        compare()
        assert client.get("/api/v1/me").status_code == 401, "the token does not return"
        assert log_in("frank").status_code == 200
        assert User.objects.get(username="frank").email == "f@example.org"

    def test_account_that_an_administrator_ended_stays_ended(self, server: DirectoryServer) -> None:
        assert log_in("frank").status_code == 200
        User.objects.filter(username="frank").update(is_active=False)
        compare()
        assert log_in("frank").status_code == 401
        assert not User.objects.get(username="frank").is_active

    def test_groups_follow_without_a_sign_in(self, server: DirectoryServer) -> None:
        assert log_in("erin").status_code == log_in("frank").status_code == 200
        own = Group.objects.create(name="own")
        GroupMember.objects.create(group=own, user=User.objects.get(username="erin"))
        server.change(ADMINS_DN, "member", dn_of("frank"))
        compare()
        assert groups_of("erin") == {"own"} and groups_of("frank") == {"gpu-admins"}

    def test_entry_that_cannot_be_used_does_not_keep_the_access_of_others(
        self, server: DirectoryServer
    ) -> None:
        first, other = client_of_login("erin"), client_of_login("frank")
        server.remove("frank")
        with server.administered() as connection:
            connection.modify_dn(dn_of("erin"), "uid=" + "e" * 151)
        with pytest.raises(UnusableEntryError):
            compare()
        assert first.get("/api/v1/me").status_code == 200
        assert other.get("/api/v1/me").status_code == 401

    def test_account_that_is_deleted_meanwhile_does_not_keep_the_access_of_others(
        self, server: DirectoryServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert log_in("erin").status_code == 200
        other, find = client_of_login("frank"), directory.find_subject
        server.remove("erin")
        server.remove("frank")

        def delete_then_find(connection: Any, subject: str) -> Any:
            User.objects.filter(username="erin").delete()
            return find(connection, subject)

        monkeypatch.setattr(directory, "find_subject", delete_then_find)
        with pytest.raises(ApplianceError):
            compare()
        assert other.get("/api/v1/me").status_code == 401

    def test_no_person_loses_access_while_the_directory_is_down(
        self, server: DirectoryServer, configure: Configure
    ) -> None:
        client = client_of_login("frank")
        server.process.kill()
        server.process.wait()
        with pytest.raises(DirectoryUnavailableError):
            compare()
        assert client.get("/api/v1/me").status_code == 200

    @pytest.mark.parametrize("change", [{"base": "dc=elsewhere"}, {"bind_dn": "cn=unknown"}])
    def test_no_person_loses_access_by_wrong_settings(
        self, server: DirectoryServer, configure: Configure, change: dict[str, str]
    ) -> None:
        client = client_of_login("frank")
        configure(server, **change)
        with pytest.raises(DirectoryUnavailableError):
            compare()
        assert client.get("/api/v1/me").status_code == 200


def test_server_with_another_ca_or_name_gets_no_password(
    server: DirectoryServer, configure: Configure, tmp_path: Path
) -> None:
    with started(tmp_path / "other", host="other.example.org") as other:
        configure(server, ca=other.folder / "ca.pem")
        assert log_in("erin").status_code == 503
        configure(other)
        refused = log_in("erin")
        assert body(refused)["code"] == "directory_unavailable" and refused["Retry-After"] == "5"


def test_server_without_tls_gets_no_password(
    cast: Cast, configure: Configure, tmp_path: Path
) -> None:
    with started(tmp_path / "plain", has_tls=False) as plain:
        configure(plain, url=plain.starttls_url)
        assert log_in("erin").status_code == 503


def test_second_factor_is_asked_of_people_in_the_directory(server: DirectoryServer) -> None:
    assert log_in("frank").status_code == 200
    user = User.objects.get(username="frank")
    secret = second_factors.begin(user=user)
    now = int(time.time()) // totp.STEP_SECONDS
    assert second_factors.confirm(user=user, code=totp.code_at(secret, now - 1))
    assert body(log_in("frank"))["code"] == "second_factor_required"
    assert log_in("frank", "wrong", code=totp.code_at(secret, now)).status_code == 401
    assert log_in("frank", code=totp.code_at(secret, now)).status_code == 200


def test_password_of_the_directory_is_not_changed_or_reset_here(
    server: DirectoryServer, cast: Cast
) -> None:
    assert log_in("frank", new_password="a longer one of my own").status_code == 409
    assert log_in("frank").status_code == 200
    assert grants_by_user({User.objects.get(username="frank").pk})


class TestLink:
    def test_linked_account_keeps_its_roles_and_takes_the_password_of_the_directory(
        self, server: DirectoryServer, cast: Cast, client_of: Callable[..., Any]
    ) -> None:
        server.add("alice")
        User.objects.filter(username="alice").update(password=make_password("local password"))
        before, client = grants_by_user({cast.alice.pk}), client_of(cast.alice)
        call_command("link_directory", "alice")
        assert client.get("/api/v1/me").status_code == 401
        assert log_in("alice", "local password").status_code == 401
        assert client_of_login("alice").get("/api/v1/me").status_code == 200
        assert grants_by_user({cast.alice.pk}) == before
        server.remove("alice")
        compare()
        assert not User.objects.get(username="alice").is_active

    def test_second_factors_of_the_account_end(self, server: DirectoryServer, cast: Cast) -> None:
        """The earlier owner could sign in with a passkey, and the person could not."""
        server.add("alice")
        User.objects.filter(username="alice").update(
            password=make_password("local password"), second_factor_since=timezone.now()
        )
        Passkey.objects.create(user=cast.alice, name="phone", credential_id="c", credential_data="")
        SecondFactor.objects.create(user=cast.alice)
        call_command("link_directory", "alice")
        assert not Passkey.objects.filter(user=cast.alice).exists()
        assert not SecondFactor.objects.filter(user=cast.alice).exists()
        assert User.objects.get(username="alice").second_factor_since is None
        assert client_of_login("alice").get("/api/v1/me").status_code == 200

    def test_person_of_another_name_signs_in_with_the_name_of_the_directory(
        self, server: DirectoryServer, cast: Cast
    ) -> None:
        User.objects.filter(username="bob").update(password=make_password("local password"))
        call_command("link_directory", "bob", "frank")
        assert body(client_of_login("frank").get("/api/v1/me"))["username"] == "bob"
        assert log_in("bob").status_code == 401

    @pytest.mark.parametrize(
        ("user", "person", "reason"),
        [
            ("alice", "absent", "has no person absent"),
            ("erin", "grace", "has no password"),
            ("alice", "erin", "The account of erin is erin"),
            ("alice", "bob", "another account with the name bob"),
            ("admin", "grace", "last administrator"),
        ],
    )
    def test_link_that_would_lock_out_or_mix_people_is_refused(
        self, server: DirectoryServer, cast: Cast, user: str, person: str, reason: str
    ) -> None:
        server.add("bob")
        User.objects.filter(username="admin").update(password=make_password("local password"))
        assert log_in("erin").status_code == 200
        with pytest.raises(CommandError, match=reason):
            call_command("link_directory", user, person)
        assert not User.objects.filter(username=user, source="").exclude(external_identity=None), (
            "the refused link is rolled back"
        )
        assert log_in("admin", "local password").status_code == 200
