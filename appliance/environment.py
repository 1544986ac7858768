"""Environment variables of the appliance. To import this changes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    IPvAnyNetwork,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict


class OidcProvider(BaseModel):
    """An identity provider of BUSBAR_OIDC_PROVIDERS, see docs/guides/sign-in.md."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str = Field(pattern=r"^[a-z0-9-]{1,50}$")
    name: str = Field(min_length=1, max_length=100)
    issuer: str = Field(pattern=r"^https://", max_length=200)
    client_id: str = Field(min_length=1)
    client_secret_file: Path
    ca: Path | None = None
    scopes: str = "openid profile email"
    username_claim: str = "preferred_username"
    groups_claim: str = "groups"
    groups: dict[str, str] = Field({}, validate_default=False)
    trusts_second_factor: bool = False


class Environment(BaseSettings):
    """Environment variables of the appliance, each with the prefix BUSBAR_."""

    model_config = SettingsConfigDict(env_prefix="BUSBAR_", use_attribute_docstrings=True)

    data: Path = Path(__file__).resolve().parent.parent / "var"
    """Folder of the database, keys and logs, created with mode 0700."""
    database: str = ""
    """URL postgresql://USER:PASSWORD@HOST:PORT/NAME; if empty, SQLite in the data folder."""
    listen: str = "127.0.0.1"
    """Address of the ports."""
    https_port: int = Field(8443, ge=1, le=65535)
    """Port of REST and console."""
    fleet_port: int = Field(8444, ge=1, le=65535)
    """Port of agents."""
    advertise: str = "127.0.0.1"
    """Address at which nodes and clients reach this appliance."""
    hold_seconds: float = Field(25.0, gt=0)
    """An allocation without a session or heartbeat for this time is released.

    With the delay of reports and fences it ends within 30 s.
    """
    fair_share_half_life_seconds: float = Field(7 * 86400.0, gt=0)
    """Half-life of the usage of a project in the fair-share order."""
    preemption_grace_seconds: float = Field(30.0, ge=0)
    """Notice before an allocation is preempted."""
    heartbeat_seconds: float = Field(1.0, gt=0)
    """Interval of heartbeats and samples that agents must keep."""
    node_certificate_seconds: float = Field(86400.0, gt=0)
    """Lifetime of the certificates of nodes. Agents renew them after two thirds of it."""
    server_certificate_seconds: float = Field(90 * 86400.0, gt=0)
    """Lifetime of the certificate of the HTTPS and agent ports, renewed after two thirds of it."""
    unreachable_seconds: float = Field(15.0, gt=0)
    """A node that has not sent a heartbeat for this time is unreachable."""
    ssh_seconds: float = Field(20.0, gt=0)
    """Timeout of each step of the SSH handshake."""
    ssh_networks: Annotated[tuple[IPvAnyNetwork, ...], NoDecode] = Field((), validate_default=False)
    """Networks of machines that may be enrolled over SSH, separated by commas.

    Empty: all addresses except loopback, link-local, multicast and reserved ones.
    """
    bundle: Path = Path(__file__).resolve().parent.parent / "build" / "bundle"
    """Folder of the node bundles built by deploy/bundle.py."""
    client_packages: Path = Path(__file__).resolve().parent.parent / "build" / "packages" / "client"
    """Folder of the client packages, built by `python -m deploy.packages client`."""
    max_connections: int = Field(16_384, ge=64)
    """Open connections of the HTTPS port. Half of the descriptors if those are fewer."""
    max_anonymous_connections: int = Field(2048, ge=16)
    """Connections without a valid token; beyond, the oldest are closed."""
    max_anonymous_connections_per_address: int = Field(512, ge=16)
    """Connections without a valid token from one address."""
    retain_events_days: float = Field(90.0, gt=0)
    """Days for which events are kept."""
    retain_tasks_days: float = Field(30.0, gt=0)
    """Days for which ended tasks and their logs are kept."""
    retain_sessions_days: float = Field(90.0, gt=0)
    """Days for which closed sessions are kept. A session goes with its allocation at the latest."""
    retain_allocations_days: float = Field(180.0, gt=0)
    """Days for which ended allocations are kept. The statistics of waiting times go as far back."""
    retain_certificates_days: float = Field(90.0, ge=31)
    """Days for which expired certificates of nodes are kept. For 30 days they can be renewed."""
    retain_tokens_days: float = Field(30.0, gt=0)
    """Days for which expired API tokens and enrolment tokens are kept."""
    retain_idempotency_keys_days: float = Field(1.0, gt=0)
    """Days for which the response of a request with an Idempotency-Key is kept."""
    retain_audit_days: float = Field(365.0, gt=0)
    """Days for which audit records are kept; with `audit_syslog`, those that were not sent stay."""
    alarm_scripts: Path = Path("/etc/busbar/alarm-scripts")
    """Folder of the scripts that alarms may run. It and they belong to root."""
    audit_syslog: str = Field("", pattern=r"^$|^.+:[0-9]{1,5}$")
    """HOST:PORT of the syslog server to which audit records are sent over TLS; empty: none."""
    audit_syslog_ca: Path | None = None
    """File with the CA certificates of that server in PEM format; the system's if not set."""
    audit_hash_socket: Path = Path("/dev/log")
    """Socket of the local syslog, which gets the newest hash of the audit records each minute."""
    disk_low_mib: int = Field(1024, ge=0)
    """Free space of the data folder below which `/readyz` and an event warn."""
    disk_full_mib: int = Field(256, ge=0)
    """Free space of the data folder below which no allocation is granted."""
    second_factor: Literal["off", "optional", "privileged", "required"] = "optional"
    """Of whom a second factor is required.

    `off`: no user is asked. `optional`: who has set one up is asked. `privileged`: required of
    people with more privileges than the role user. `required`: of all people.
    """
    ldap_url: str = Field("", pattern=r"^$|^ldaps?://[^/@]+$")
    """URL of the directory: ldaps://HOST, or ldap://HOST, where StartTLS is used. Empty: none."""
    ldap_ca: Path | None = None
    """File with the CA certificates of the directory in PEM format; the system's if not set."""
    ldap_bind_dn: str = ""
    """Entry as which the appliance searches; empty: anonymous."""
    ldap_bind_password_file: Path | None = None
    """File with the password of that entry."""
    ldap_base: str = Field("", validate_default=True)
    """Entry below which people are searched."""
    ldap_user_filter: str = Field("(uid={username})", pattern=r"^\(.*\{username\}.*\)$")
    """Filter of people who may sign in. `{username}` stands for the name that was typed."""
    ldap_username_attribute: str = "uid"
    """Attribute that becomes the name of the account."""
    ldap_id_attribute: str = "entryUUID"
    """Attribute that identifies a person for ever; objectGUID for Active Directory."""
    ldap_mail_attribute: str = "mail"
    """Attribute with the address for mail."""
    ldap_groups: dict[str, str] = Field({}, validate_default=False)
    """Groups of the directory and the groups here that follow them: a JSON object, DN to name."""
    ldap_group_filter: str = "(member={dn})"
    """Filter that a group must meet for a person with `{dn}` and `{username}` to be in it."""
    ldap_seconds: float = Field(8.0, gt=0)
    """Longest time that a login waits for the directory."""
    ldap_compare_seconds: float = Field(300.0, gt=0, le=600)
    """Time between two comparisons of all accounts of the directory with it."""
    public_url: str = Field("", pattern=r"^$|^https://[^/]+$")
    """URL at which browsers reach the console; empty: that of `advertise` and `https_port`."""
    oidc_providers: tuple[OidcProvider, ...] = ()
    """Identity providers (OpenID Connect): a JSON list, see the guide to signing in."""
    debug: bool = False
    """Debug mode of Django, for development only."""

    @property
    def console_url(self) -> str:
        """URL at which browsers reach the console, without a slash at the end."""
        return self.public_url or f"https://{self.advertise}:{self.https_port}"

    @field_validator("ldap_base")
    @classmethod
    def require_base(cls, text: str, info: ValidationInfo) -> str:
        if info.data.get("ldap_url") and not text:
            raise ValueError("a directory needs the entry below which people are")
        return text

    @field_validator("ssh_networks", mode="before")
    @classmethod
    def split_networks(cls, text: str) -> tuple[str, ...]:
        return tuple(part.strip() for part in text.split(",") if part.strip())


def read_environment() -> Environment:
    """Return the settings of the environment. Raises SystemExit with the wrong variables."""
    try:
        return Environment()
    except ValidationError as error:
        lines = [
            f"BUSBAR_{str(e['loc'][0]).upper()}={e['input']}: {e['msg']}." for e in error.errors()
        ]
        raise SystemExit("\n".join(lines)) from None
