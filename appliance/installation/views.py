"""REST resource of the client's installation: the line to paste on a new machine."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.api.errors import ApplianceError
from appliance.api.views import ApplianceView
from appliance.fleet.enrolment import appliance_url
from appliance.installation.authority import pinned_authority
from appliance.installation.packages import Package, packages
from appliance.installation.script import SCRIPT_NAME, curl_line, wget_line
from appliance.installation.serving import PREFIX


class ClientPackageSerializer(serializers.Serializer[dict[str, Any]]):
    name = serializers.CharField(help_text="The name of the file.")
    url = serializers.CharField(help_text="The URL of the file, which needs no sign-in.")
    size_bytes = serializers.IntegerField(help_text="The size of the file.")
    sha256 = serializers.CharField(help_text="The SHA-256 of the file, as in the script.")


class ClientInstallationSerializer(serializers.Serializer[dict[str, Any]]):
    ca_sha256 = serializers.CharField(
        help_text="The fingerprint of the appliance's CA, which the lines compare."
    )
    script_url = serializers.CharField(help_text="The URL of the installation script.")
    curl_line = serializers.CharField(
        help_text="The shell line that fetches the script with curl and runs it."
    )
    wget_line = serializers.CharField(help_text="The same for machines that have wget only.")
    packages = ClientPackageSerializer(
        many=True,
        help_text="The packages that the script installs. Empty if none are built; it fails then.",
    )


class ClientInstallationView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "account.self"}

    @extend_schema(responses=ClientInstallationSerializer)
    def get(self, request: Request) -> Response:
        """Return the line that installs the client on another machine.

        It compares the appliance's CA with its fingerprint before it runs anything of the
        appliance. Script and packages need no sign-in.
        """
        url, authority = appliance_url(), pinned_authority()
        found = {
            "ca_sha256": authority.sha256,
            "script_url": f"{url}{PREFIX}{SCRIPT_NAME}",
            "curl_line": curl_line(url, authority.sha256),
            "wget_line": wget_line(url, authority.sha256),
            "packages": [described(url, package) for package in available()],
        }
        return Response(ClientInstallationSerializer(found).data)


def available() -> tuple[Package, ...]:
    try:
        loaded = packages.load()
    except ApplianceError:
        return ()
    return loaded.debian, loaded.archive


def described(url: str, package: Package) -> dict[str, Any]:
    return {
        "name": package.name,
        "url": f"{url}{PREFIX}{package.name}",
        "size_bytes": len(package.content),
        "sha256": package.sha256,
    }
