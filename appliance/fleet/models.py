"""Enrolment tokens, SSH host keys and node certificates."""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.utils import timezone

from appliance.db.identifiers import uuid7


class EnrolmentToken(models.Model):
    """A single-use token, valid for 15 minutes. The row holds only a hash of its secret."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    secret_sha256 = models.CharField(max_length=64, unique=True)
    node = models.ForeignKey(
        "inventory.Node", null=True, on_delete=models.CASCADE, related_name="+"
    )
    """The node that a reinstalled machine replaces; null for a new node."""
    simulated = models.BooleanField(default=False)
    """The new node is simulated. Only a command on the appliance creates such tokens."""
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL)
    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField()
    redeemed_at = models.DateTimeField(null=True)
    redeemed_key_sha256 = models.CharField(max_length=64, blank=True)
    """Digest of the agent's CSR. A retry with it within 60 s returns the stored response."""
    answer = models.JSONField(null=True)
    """Body of the response to the redemption."""

    class Meta:
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["expires_at"], name="enrolment_token_by_end")
        ]


class SshHostKey(models.Model):
    """The confirmed host key of an SSH server. Enrolment fails if the server has another one."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    address = models.CharField(max_length=255)
    port = models.PositiveIntegerField()
    key_type = models.CharField(max_length=50)
    sha256 = models.CharField(max_length=64)
    """Fingerprint as OpenSSH prints it, without the prefix `SHA256:` and without padding."""
    confirmed_by = models.CharField(max_length=150)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["address", "port"], name="ssh_host_key_once")
        ]


class NodeCertificateQuerySet(models.QuerySet["NodeCertificate"]):
    def in_force(self) -> NodeCertificateQuerySet:
        """Keep agent certificates that are neither revoked nor superseded."""
        return self.filter(purpose="agent", revoked_at=None, superseded_at=None)


class NodeCertificate(models.Model):
    """A certificate issued to a node."""

    serial = models.CharField(max_length=50, primary_key=True)
    node = models.ForeignKey(
        "inventory.Node", on_delete=models.CASCADE, related_name="certificates"
    )
    purpose = models.CharField(
        max_length=10, choices=[("agent", "agent"), ("launcher", "launcher")]
    )
    not_after = models.DateTimeField()
    generation = models.PositiveIntegerField(default=1)
    """Grows by one with each renewal."""
    confirmed_at = models.DateTimeField(null=True)
    """First use. It supersedes the node's other certificates up to its generation."""
    superseded_at = models.DateTimeField(null=True)
    """Use after this time proves a second copy of the node's identity."""
    authorities_sha256 = models.CharField(max_length=64, blank=True)
    """Digest of the trusted CAs that the node received with the certificate."""
    revoked_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(default=timezone.now)

    objects = NodeCertificateQuerySet.as_manager()

    class Meta:
        indexes: ClassVar[list[models.Index]] = [
            models.Index(
                fields=["node"],
                name="node_certificate_in_force",
                condition=models.Q(purpose="agent", revoked_at=None, superseded_at=None),
            ),
            models.Index(fields=["not_after"], name="node_certificate_by_end"),
        ]
