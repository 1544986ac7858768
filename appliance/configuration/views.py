"""REST resource settings."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.api.errors import Code
from appliance.api.views import ApplianceView, ErrorCodes, check_version
from appliance.configuration.models import StoredSettings
from appliance.configuration.serializers import (
    SettingsChangeSerializer,
    SettingsSerializer,
    TestMailSerializer,
    represent,
)
from appliance.configuration.services import change_settings, require_usable, send_test_mail
from appliance.configuration.storage import build, stored
from appliance.runtime.live_settings import SECTIONS

MANAGE = "settings.manage"


def respond(row: StoredSettings) -> Response:
    """Return the stored settings, which all processes apply within a moment."""
    changed = [
        f"{section}.{name}"
        for stored in (row.values, row.secrets)
        for section, names in stored.items()
        for name in names
    ]
    content: dict[str, Any] = {"version": row.version, "changed": sorted(changed)}
    for name, section in sorted(SECTIONS.items()):
        values = build(section, row.values.get(name, {}), row.secrets.get(name, {}))
        content[name] = represent(values)
    return Response(content, headers={"ETag": f'"{row.version}"'})


class SettingsView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": MANAGE, "PATCH": MANAGE}
    version_methods: ClassVar[frozenset[str]] = frozenset({"PATCH"})

    @extend_schema(responses=SettingsSerializer)
    def get(self, request: Request) -> Response:
        """Return the settings of the appliance, by section.

        Addresses, ports, paths and the database are environment variables, which are read at the
        start. Those that exist for settings listed here, too, give the defaults.
        """
        return respond(stored())

    @extend_schema(request=SettingsChangeSerializer, responses=SettingsSerializer)
    def patch(self, request: Request) -> Response:
        """Change settings. Those that the request does not name keep their values.

        Null resets a setting to its default. Changes are in force at once, except those of the
        section `connections`, which are read when the appliance starts. Another mail server needs
        all privileges.
        """
        check_version(stored(), request)
        form = SettingsChangeSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        require_usable(form.validated_data)
        return respond(change_settings(changes=form.validated_data, actor=request.user))


class TestMailView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"POST": MANAGE}
    error_codes: ClassVar[ErrorCodes] = {
        "POST": (Code.MAIL_FAILED,),
    }
    dry_run_supported: ClassVar[bool] = False

    @extend_schema(request=TestMailSerializer, responses={204: None})
    def post(self, request: Request) -> Response:
        """Send a test message through the mail server of the settings.

        Fails with `mail_failed` and the reply of the server if it does not accept the message.
        """
        form = TestMailSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        send_test_mail(to=form.validated_data["to"])
        return Response(status=204)
