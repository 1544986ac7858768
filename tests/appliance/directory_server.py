"""A directory for tests: Debian's slapd with TLS and a few people."""

from __future__ import annotations

import datetime
import ipaddress
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ldap3
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from deploy.ports import free_port
from deploy.supervisor import wait_for
from tests.ports import port

SLAPD = shutil.which("slapd") or "/usr/sbin/slapd"
BASE = "dc=example,dc=org"
ROOT_DN, ROOT_PASSWORD = f"cn=root,{BASE}", "root of the directory"
SERVICE_DN, SERVICE_PASSWORD = f"cn=busbar,{BASE}", "searches only"
PASSWORD = "seven green bottles"
ADMINS_DN = f"cn=gpu-admins,ou=groups,{BASE}"
PEOPLE = ("erin", "frank", "grace")

CONFIGURATION = """
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
pidfile {folder}/pid
{tls}
database mdb
suffix "{base}"
rootdn "{root}"
rootpw "{root_password}"
directory {folder}/rows
access to attrs=userPassword by anonymous auth by * none
access to * by dn.exact="{service}" read by * none
"""
TLS = """
TLSCertificateFile {folder}/server.pem
TLSCertificateKeyFile {folder}/server.key
security simple_bind=128
"""
ENTRIES = """
dn: {base}
objectClass: dcObject
objectClass: organization
o: example
dc: example

dn: ou=people,{base}
objectClass: organizationalUnit
ou: people

dn: ou=groups,{base}
objectClass: organizationalUnit
ou: groups

dn: {service}
objectClass: organizationalRole
objectClass: simpleSecurityObject
cn: busbar
userPassword: {service_password}

dn: {admins}
objectClass: groupOfNames
cn: gpu-admins
member: {erin}
"""
PERSON = """
dn: {dn}
objectClass: inetOrgPerson
cn: {name}
sn: {name}
uid: {name}
mail: {name}@example.org
userPassword: {password}
"""


def dn_of(name: str) -> str:
    return f"uid={name},ou=people,{BASE}"


class DirectoryServer:
    """A running slapd. `host` is the name in its certificate."""

    def __init__(self, folder: Path, *, host: str = "127.0.0.1", has_tls: bool = True) -> None:
        self.folder = folder
        self.port = free_port(port(760), "127.0.0.1")
        self.tls_port = free_port(self.port + 1, "127.0.0.1")
        (folder / "rows").mkdir(parents=True)
        write_certificates(folder, host)
        self._write_configuration(has_tls)
        self._load_entries()
        addresses = f"ldap://127.0.0.1:{self.port}"
        if has_tls:
            addresses += f" ldaps://127.0.0.1:{self.tls_port}"
        with (folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                [SLAPD, "-h", addresses, "-f", str(folder / "conf"), "-d", "0"],
                stdout=log,
                stderr=log,
            )

    def _write_configuration(self, has_tls: bool) -> None:
        text = CONFIGURATION.format(
            folder=self.folder,
            tls=TLS.format(folder=self.folder) if has_tls else "",
            base=BASE,
            root=ROOT_DN,
            root_password=ROOT_PASSWORD,
            service=SERVICE_DN,
        )
        (self.folder / "conf").write_text(text)

    def _load_entries(self) -> None:
        text = ENTRIES.format(
            base=BASE,
            service=SERVICE_DN,
            service_password=SERVICE_PASSWORD,
            admins=ADMINS_DN,
            erin=dn_of("erin"),
        )
        people = (PERSON.format(dn=dn_of(n), name=n, password=PASSWORD) for n in PEOPLE)
        command = [SLAPD, "-T", "add", "-f", str(self.folder / "conf")]
        content = "\n".join([text, *people]).encode()
        subprocess.run(command, input=content, check=True, capture_output=True)

    @property
    def url(self) -> str:
        return f"ldaps://127.0.0.1:{self.tls_port}"

    @property
    def starttls_url(self) -> str:
        return f"ldap://127.0.0.1:{self.port}"

    def is_ready(self) -> bool:
        with socket.socket() as s:
            return s.connect_ex(("127.0.0.1", self.port)) == 0

    @contextmanager
    def administered(self) -> Iterator[Any]:
        """Yield a connection that may change entries."""
        server = ldap3.Server("127.0.0.1", port=self.tls_port, use_ssl=True)
        with ldap3.Connection(server, ROOT_DN, ROOT_PASSWORD, raise_exceptions=True) as connection:
            yield connection

    def add(self, name: str, uid: str = "") -> None:
        values = {"cn": name, "sn": name, "uid": uid or name, "userPassword": PASSWORD}
        with self.administered() as connection:
            connection.add(dn_of(name), "inetOrgPerson", values)

    def remove(self, name: str) -> None:
        with self.administered() as connection:
            connection.delete(dn_of(name))

    def change(self, dn: str, attribute: str, *values: str) -> None:
        with self.administered() as connection:
            connection.modify(dn, {attribute: [(ldap3.MODIFY_REPLACE, list(values))]})


@contextmanager
def started(folder: Path, **options: Any) -> Iterator[DirectoryServer]:
    directory = DirectoryServer(folder, **options)
    try:
        wait_for("slapd", directory.is_ready, folder / "log")
        yield directory
    finally:
        directory.process.kill()
        directory.process.wait()


def write_certificates(folder: Path, host: str) -> None:
    """Write ca.pem, server.pem and server.key for an address or name."""
    ca_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    ca_name, name = (
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, n)]) for n in ("test CA", host)
    )
    ca = builder(ca_name, ca_name, ca_key).add_extension(
        x509.BasicConstraints(ca=True, path_length=None), critical=True
    )
    try:
        alternative: x509.GeneralName = x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        alternative = x509.DNSName(host)
    server = builder(name, ca_name, key).add_extension(
        x509.SubjectAlternativeName([alternative]), critical=False
    )
    for file, made in (("ca.pem", ca), ("server.pem", server)):
        signed = made.sign(ca_key, hashes.SHA256())
        (folder / file).write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    (folder / "server.key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )


def builder(
    name: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.timezone.utc)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
    )
