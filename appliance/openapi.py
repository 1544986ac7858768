"""What every operation has, in the OpenAPI file."""

from __future__ import annotations

from typing import Any

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers

from appliance.rest import CHANGING, ApplianceView, CursorPage, can_be_tried

DRY_RUN = OpenApiParameter(
    "dry_run",
    bool,
    description="true: everything is checked and decided, and the answer is what would be; nothing changes.",
)


class FieldProblemSerializer(serializers.Serializer[dict[str, str]]):
    pointer = serializers.CharField(help_text="Where in the body, as a JSON pointer.")
    code = serializers.CharField()
    message = serializers.CharField()


class ProblemSerializer(serializers.Serializer[dict[str, Any]]):
    """RFC 9457. Some have more fields, such as `blockers`."""

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        """Not as attributes: a serializer has an `errors` of its own."""
        return {
            "type": serializers.CharField(),
            "title": serializers.CharField(),
            "status": serializers.IntegerField(),
            "code": serializers.CharField(help_text="Stable: programs go by it."),
            "detail": serializers.CharField(help_text="A sentence that says what to do next."),
            "instance": serializers.CharField(required=False),
            "errors": FieldProblemSerializer(many=True, required=False),
        }


class DocumentedSchema(AutoSchema):
    def get_override_parameters(self) -> list[Any]:
        tried = (
            self.method in CHANGING
            and isinstance(self.view, ApplianceView)
            and can_be_tried(self.view, self.method)
        )
        return [DRY_RUN] if tried else []

    def _get_paginator(self) -> Any:
        """Every list is a page."""
        return (
            CursorPage()
            if self.method == "GET" and isinstance(self.view, ApplianceView)
            else super()._get_paginator()
        )  # type: ignore[no-untyped-call]

    def get_operation(self, *args: Any, **kwargs: Any) -> dict[str, Any] | None:
        operation = super().get_operation(*args, **kwargs)
        if operation is not None and isinstance(self.view, ApplianceView):
            self.resolve_serializer(ProblemSerializer, "response")
            for status in sorted(self.refusals(self.view)):
                operation["responses"].setdefault(
                    str(status), {"$ref": "#/components/responses/Problem"}
                )
        return operation

    def refusals(self, view: ApplianceView) -> set[int]:
        """Statuses of the problems that it may answer with."""
        found = {400, 503}
        if view.privileges.get(self.method) != "public":
            found |= {401, 403}
        if "{" in self.path:
            found.add(404)
        if self.method in CHANGING:
            found |= {404, 409, 412, 415, 422}
        return found | view.refusals
