"""Exchanges with the LDAP directory. They block; each step has a time limit.

The connection is always TLS: LDAPS, or StartTLS before anything else is sent. Referrals are not
followed, because they would send passwords to other servers.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import ldap3
from django.conf import settings
from ldap3.core.exceptions import LDAPException
from ldap3.utils.conv import escape_bytes, escape_filter_chars

from appliance.api.account_names import is_visible
from appliance.signin.directory_entry import (
    DirectoryUnavailableError,
    Entry,
    UnusableEntryError,
)

STEP_SECONDS = 3
"""Of connecting, and of each answer."""
INVALID_CREDENTIALS, SUCCESS, SIZE_LIMIT_EXCEEDED, NO_SUCH_OBJECT = 49, 0, 4, 32
MAX_NAME_LENGTH = 150
HEX = "hex:"
"""Prefix of identifiers that are not text, such as those of Active Directory."""


class VerifiedTls(ldap3.Tls):  # type: ignore[misc]  # ldap3 has no types
    """TLS with OpenSSL's check of the host name; ldap3 has one of its own."""

    def wrap_socket(self, connection: Any, do_handshake: bool = False) -> None:
        ca = settings.ENVIRONMENT.ldap_ca
        context = ssl.create_default_context(cafile=str(ca) if ca else None)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        host = connection.server.host
        connection.socket = context.wrap_socket(connection.socket, server_hostname=host)


@contextmanager
def bound(dn: str, password: str) -> Iterator[Any]:
    """Yield a connection as this entry. Raises DirectoryUnavailableError, also if it is refused."""
    connection = opened(dn, password)
    try:
        if bind(connection) != SUCCESS:
            raise DirectoryUnavailableError(
                f"the bind of {dn or 'an anonymous client'} was refused"
            )
        yield connection
    except (LDAPException, OSError) as error:
        raise DirectoryUnavailableError(str(error)) from None
    finally:
        close(connection)


def opened(dn: str, password: str) -> Any:
    parts = urlsplit(settings.ENVIRONMENT.ldap_url)
    uses_ssl = parts.scheme == "ldaps"
    try:
        server = ldap3.Server(
            parts.hostname,
            port=parts.port or (636 if uses_ssl else 389),
            use_ssl=uses_ssl,
            tls=VerifiedTls(),
            get_info=ldap3.NONE,
            connect_timeout=STEP_SECONDS,
        )
        connection = ldap3.Connection(
            server,
            user=dn or None,
            password=password or None,
            auto_referrals=False,
            receive_timeout=STEP_SECONDS,
            read_only=True,
        )
        connection.open(read_server_info=False)
        if not uses_ssl and not connection.start_tls(read_server_info=False):
            raise DirectoryUnavailableError("the directory does not support StartTLS")
    except (LDAPException, OSError) as error:
        raise DirectoryUnavailableError(str(error)) from None
    return connection


def bind(connection: Any) -> int:
    connection.bind(read_server_info=False)
    return int(connection.result["result"])


def close(connection: Any) -> None:
    with suppress(LDAPException, OSError):
        connection.unbind()


def service_connection() -> Any:
    e = settings.ENVIRONMENT
    try:
        password = e.ldap_bind_password_file.read_text() if e.ldap_bind_password_file else ""
    except OSError as error:
        raise DirectoryUnavailableError(f"{error.strerror}: {error.filename}") from None
    return bound(e.ldap_bind_dn, password.rstrip("\n"))


def verify(username: str, password: str) -> Entry | None:
    """Return the person with this name and password, or None. Raises DirectoryUnavailableError."""
    if not password:
        return None  # a bind without a password succeeds as no user
    entry = find_named(username)
    return entry if entry is not None and accepts(entry.dn, password) else None


def find_named(username: str) -> Entry | None:
    """Return the person with this name, or None. Raises DirectoryUnavailableError."""
    if not username or len(username) > MAX_NAME_LENGTH or "\0" in username:
        return None
    with service_connection() as connection:
        return find_person(connection, user_filter(escape_filter_chars(username)))


def accepts(dn: str, password: str) -> bool:
    """Return whether the password is that of the entry."""
    connection = opened(dn, password)
    try:
        result = bind(connection)
    except (LDAPException, OSError) as error:
        raise DirectoryUnavailableError(str(error)) from None
    finally:
        close(connection)
    if result not in (SUCCESS, INVALID_CREDENTIALS):
        raise DirectoryUnavailableError(f"the bind of a person ended with result {result}")
    return result == SUCCESS


def find_subject(connection: Any, subject: str) -> Entry | None:
    """Return the person with this identifier who may still sign in, or None."""
    name = settings.ENVIRONMENT.ldap_id_attribute
    value = (
        escape_bytes(bytes.fromhex(subject.removeprefix(HEX)))
        if subject.startswith(HEX)
        else escape_filter_chars(subject)
    )
    return find_person(connection, f"(&({name}={value}){user_filter('*')})")


def user_filter(username: str) -> str:
    """Return the filter of people for an escaped name; `*` for all of them."""
    return str(settings.ENVIRONMENT.ldap_user_filter).replace("{username}", username)


def find_person(connection: Any, condition: str) -> Entry | None:
    """Return the only entry that meets the condition, with its groups, or None."""
    e = settings.ENVIRONMENT
    wanted = [e.ldap_username_attribute, e.ldap_id_attribute, e.ldap_mail_attribute]
    found = search(connection, e.ldap_base, condition, ldap3.SUBTREE, wanted)
    if len(found) != 1:
        return None
    dn, values = found[0]["dn"], found[0]["raw_attributes"]
    username, subject = first(values, wanted[0]), first(values, wanted[1])
    if not username or not subject or len(username) > MAX_NAME_LENGTH:
        raise UnusableEntryError(f"{dn} lacks {wanted[0]} or {wanted[1]}, or the name is too long")
    groups = mapped_groups(connection, dn, username)
    return Entry(dn, subject, username, first(values, wanted[2])[:254], groups)


def search(
    connection: Any, base: str, condition: str, scope: str, attributes: list[str]
) -> list[Mapping[str, Any]]:
    """Return at most two entries. Raises DirectoryUnavailableError for any other result."""
    connection.search(
        base, condition, scope, attributes=attributes, size_limit=2, time_limit=STEP_SECONDS
    )
    result = connection.result["result"]
    if result == NO_SUCH_OBJECT and scope == ldap3.BASE:
        return []
    if result not in (SUCCESS, SIZE_LIMIT_EXCEEDED):
        raise UnusableEntryError(
            f"the search below {base} ended with {connection.result['description']}"
        )
    return [entry for entry in connection.response or () if entry["type"] == "searchResEntry"]


def mapped_groups(connection: Any, dn: str, username: str) -> frozenset[str]:
    """Return those of the mapped groups that have the person as a member."""
    condition = str(settings.ENVIRONMENT.ldap_group_filter)
    condition = condition.replace("{dn}", escape_filter_chars(dn))
    condition = condition.replace("{username}", escape_filter_chars(username))
    return frozenset(
        group
        for group in settings.ENVIRONMENT.ldap_groups
        if search(connection, group, condition, ldap3.BASE, ["1.1"])
    )


def first(values: Mapping[str, list[bytes]], name: str) -> str:
    """Return the first value of an attribute as text, in hexadecimal if it is not; empty if none.

    Names of attributes have no case.
    """
    by_name = {key.lower(): value for key, value in values.items()}
    content = (by_name.get(name.lower()) or [b""])[0]
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return HEX + content.hex()
    return text if is_visible(text) else HEX + content.hex()
