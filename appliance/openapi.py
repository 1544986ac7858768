"""What every operation has, in the OpenAPI file."""

from __future__ import annotations

from typing import Any

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiParameter

from appliance.rest import CHANGING, ApplianceView, can_be_tried

DRY_RUN = OpenApiParameter("dry_run", bool, description="true: everything is checked and decided, and the answer is what would be; nothing changes.")


class DocumentedSchema(AutoSchema):
    def get_override_parameters(self) -> list[Any]:
        tried = self.method in CHANGING and isinstance(self.view, ApplianceView) and can_be_tried(self.view, self.method)
        return [DRY_RUN] if tried else []
