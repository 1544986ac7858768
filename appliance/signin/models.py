"""Rows of the ways to sign in."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils import timezone

from appliance.accounts.models import ApiToken, User
from appliance.db.identifiers import uuid7


class SecondFactor(models.Model):
    """The second factor of a user: an authenticator app (TOTP) and recovery codes.

    `User.second_factor_since` says whether it is in use. Secrets are sealed (runtime/sealing.py).
    """

    user = models.OneToOneField(
        User, primary_key=True, on_delete=models.CASCADE, related_name="second_factor"
    )
    secret = models.TextField(blank=True, default="")
    pending_secret = models.TextField(blank=True, default="")
    """A secret that no code has confirmed yet."""
    pending_since = models.DateTimeField(null=True)
    last_step = models.PositiveBigIntegerField(default=0)
    """Time step of the last accepted code. Codes of this and earlier steps are refused."""
    recovery_sha256 = models.JSONField(default=list)
    """Digests of the recovery codes that have not been used."""
    failures = models.PositiveIntegerField(default=0)
    """Wrong codes since the last right one."""
    failed_at = models.DateTimeField(null=True)


class DeviceLogin(models.Model):
    """A sign-in without a password that waits for the approval of a user who is signed in.

    The row ends when the device takes its token.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    code = models.CharField(max_length=9, unique=True)
    """The code that the user types to approve, such as `BCDF-GHJK`."""
    secret_sha256 = models.CharField(max_length=64)
    client = models.CharField(max_length=100, blank=True)
    """Name that the device gives itself. Not verified."""
    address = models.CharField(max_length=45)
    network = models.CharField(max_length=45, db_index=True)
    """The network of the address: limits count its clients as one."""
    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField(db_index=True)
    is_denied = models.BooleanField(default=False)
    approved_by = models.ForeignKey(User, null=True, on_delete=models.CASCADE)
    approved_with = models.ForeignKey(ApiToken, null=True, on_delete=models.CASCADE)
    """The token that approved it. Without it, after a sign-out, the row is gone."""
    password_sha256 = models.CharField(max_length=64, blank=True)
    """Digest of `User.password` at the approval, as in `ApiToken`."""


class ExternalIdentity(models.Model):
    """A person as an issuer knows them: the directory or an identity provider.

    Names and addresses change and are reused; only issuer and subject identify a person.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    user = models.OneToOneField(User, on_delete=models.CASCADE, related_name="external_identity")
    issuer = models.CharField(max_length=200)
    subject = models.CharField(max_length=255)
    created_at = models.DateTimeField(default=timezone.now)
    missing_since = models.DateTimeField(null=True)
    """The time from which the directory has no such person; null while it has."""

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["issuer", "subject"], name="external_identity_once")
        ]


class Passkey(models.Model):
    """A passkey (WebAuthn): a key pair on a device of a user, of which this is the public half."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="passkeys")
    name = models.CharField(max_length=100)
    credential_id = models.CharField(max_length=1400, unique=True)
    """As the device knows it, in base64url. At most 1023 bytes."""
    credential_data = models.TextField()
    """Attested credential data with the public key, in base64."""
    sign_count = models.PositiveBigIntegerField(default=0)
    """Signatures that the device has counted; 0 if it does not count."""
    created_at = models.DateTimeField(default=timezone.now)
    last_used_at = models.DateTimeField(null=True)


class UsedChallenge(models.Model):
    """A challenge that an accepted passkey has signed, until it has expired."""

    sha256 = models.CharField(primary_key=True, max_length=64)
    expires_at = models.DateTimeField(db_index=True)
