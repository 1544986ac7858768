"""Django settings, built from validated environment variables."""

from __future__ import annotations

import sys
import urllib.parse
from pathlib import Path
from typing import Annotated, Any, Literal

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


ENVIRONMENT = read_environment()
BASE_DIR = Path(__file__).resolve().parent.parent
DATA_DIR = ENVIRONMENT.data
DATA_DIR.mkdir(parents=True, exist_ok=True, mode=0o700)


def secret_key() -> str:
    """Return the secret key; create its file (mode 0600) on the first start."""
    import secrets

    path = DATA_DIR / "secret_key"
    if not path.exists():
        path.touch(mode=0o600)
        path.write_text(secrets.token_urlsafe(50))
    return path.read_text()


def import_rest_framework() -> None:
    """Import it without packages that it imports if they are there, and that nothing here uses.

    They take 14 MB in each of two processes: psycopg, behind the first name, without PostgreSQL,
    and a package of the tool for the documentation.
    """
    names = [] if ENVIRONMENT.database else ["django.contrib.postgres.fields"]
    hidden = [name for name in [*names, "requests"] if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # None: not to be found
    import rest_framework.compat  # noqa: F401

    for name in hidden:
        del sys.modules[name]


import_rest_framework()
SECRET_KEY = secret_key()
DEBUG = ENVIRONMENT.debug
ALLOWED_HOSTS = ["*"]  # TLS proves the identity, and no response depends on the Host header
ROOT_URLCONF = "appliance.urls"
ASGI_APPLICATION = "appliance.http.application.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
AUTH_USER_MODEL = "accounts.User"
USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en-gb"
STATIC_URL = "/static/"
CONSOLE_DIR = BASE_DIR / "frontend" / "dist"
"""Built console. Without it the appliance serves a page with build instructions."""
DOCUMENTATION_DIR = BASE_DIR / "build" / "site"
"""Built documentation site."""
if CONSOLE_DIR.is_dir():
    WHITENOISE_ROOT = CONSOLE_DIR  # file names under /assets contain a hash
WHITENOISE_IMMUTABLE_FILE_TEST = r"^/assets/.+-[\w-]{8}\.\w+$"
WHITENOISE_USE_FINDERS = True  # Swagger UI comes from its package, without collectstatic or a CDN

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.staticfiles",
    "channels",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "appliance.audit",
    "appliance.configuration",
    "appliance.accounts",
    "appliance.signin",
    "appliance.activity",
    "appliance.inventory",
    "appliance.pools",
    "appliance.telemetry",
    "appliance.keys",
    "appliance.allocations",
    "appliance.notifications",
    "appliance.fleet",
    "appliance.backups",
    "appliance.alarms",
    "appliance.controller",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "appliance.http.console.content_security_policy",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.middleware.common.CommonMiddleware",
]

TEMPLATES = [{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True}]


def sqlite(name: str, synchronous: str) -> dict[str, Any]:
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": DATA_DIR / name,
        "CONN_MAX_AGE": None,
        "OPTIONS": {
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            "init_command": (
                f"PRAGMA journal_mode=WAL; PRAGMA synchronous={synchronous}; "
                "PRAGMA foreign_keys=ON; PRAGMA temp_store=MEMORY;"
            ),
        },
    }


def postgresql(url: str) -> dict[str, Any]:
    """Return the settings of a PostgreSQL database.

    Several appliances may share it: constraints of the rows prevent double grants.
    """
    parts = urllib.parse.urlsplit(url)
    if parts.scheme != "postgresql" or len(parts.path) < 2:
        raise SystemExit(
            "BUSBAR_DATABASE must be postgresql://USER:PASSWORD@HOST:PORT/NAME or empty (SQLite)."
        )
    host = urllib.parse.parse_qs(parts.query).get("host", [parts.hostname or ""])[0]
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.path[1:],
        "USER": urllib.parse.unquote(parts.username or ""),
        "PASSWORD": urllib.parse.unquote(parts.password or ""),
        "HOST": host,
        "PORT": str(parts.port or ""),
        "CONN_MAX_AGE": None,
        "CONN_HEALTH_CHECKS": True,
        "DISABLE_SERVER_SIDE_CURSORS": True,  # a pooler of transactions would lose them
    }


DATABASES: dict[str, Any] = {
    "default": postgresql(ENVIRONMENT.database)
    if ENVIRONMENT.database
    else sqlite("control.db", "FULL")
}
"""Synchronous mode FULL, because grants must survive a power failure."""
if not ENVIRONMENT.database:
    # Samples need not survive a power failure, and their writes must not delay grants.
    DATABASES["metrics"] = sqlite("metrics.db", "NORMAL")
DATABASE_ROUTERS = ["appliance.telemetry.router.MetricsRouter"]

CHANNEL_LAYERS = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}

PASSWORD_RESET_TIMEOUT = 3600
PASSWORD_HASHERS = ["django.contrib.auth.hashers.Argon2PasswordHasher"]
AUTH_PASSWORD_VALIDATORS = [
    {
        "NAME": "django.contrib.auth.password_validation.MinimumLengthValidator",
        "OPTIONS": {"min_length": 12},
    },
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "appliance.accounts.authentication.ApiTokenAuthentication",
        "appliance.accounts.authentication.CookieAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["appliance.accounts.authorization.HasPrivilege"],
    "DEFAULT_RENDERER_CLASSES": ["appliance.api.encoding.FastJSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["appliance.api.parsing.StrictJSONParser"],
    "DEFAULT_PAGINATION_CLASS": "appliance.api.pagination.CursorPagination",
    "DEFAULT_SCHEMA_CLASS": "appliance.api.openapi.DocumentedSchema",
    "EXCEPTION_HANDLER": "appliance.api.problems.problem_response",
    "UNAUTHENTICATED_USER": None,
}

SPECTACULAR_SETTINGS = {
    "TITLE": "Busbar",
    "DESCRIPTION": "Pools the GPUs of many servers and provides them over the network.",
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_PERMISSIONS": ["rest_framework.permissions.AllowAny"],
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "appliance.api.description.complete.complete",
    ],
    "ENFORCE_NON_BLANK_FIELDS": True,
    "ENUM_NAME_OVERRIDES": {
        "AlarmStateEnum": "appliance.alarms.models.AlarmState",
        "AllocationStateEnum": "appliance.allocations.models.AllocationState",
        "HoldEnum": "appliance.allocations.models.Hold",
        "IsolationLevelEnum": "appliance.pools.isolation.IsolationLevel",
        "NodeStateEnum": "appliance.inventory.models.NodeState",
        "SecondFactorPolicyEnum": ["off", "optional", "privileged", "required"],
        "TaskStateEnum": "appliance.activity.models.TaskState",
    },
    "SCHEMA_PATH_PREFIX": "/api/v1/",
}

SECURE_CONTENT_TYPE_NOSNIFF = True
DATA_UPLOAD_MAX_MEMORY_SIZE = None  # http/request_body.py limits bodies
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"()": "nodes.log_format.formatter"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": "INFO"},
    "loggers": {
        "httpx": {"level": "WARNING"},
        # Strangers must not write a line per request. http/application.py logs failures itself.
        "django.request": {"level": "ERROR"},
        "django.security": {"level": "CRITICAL"},
        "uvicorn.error": {"level": "CRITICAL"},
        "paramiko": {"level": "CRITICAL"},  # its errors are raised, too
    },
}
