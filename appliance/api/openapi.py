"""Parts of the OpenAPI document that all operations share."""

from __future__ import annotations

import inspect
from typing import Any

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers

from appliance.api.fields import LineField
from appliance.api.pagination import CursorPagination
from appliance.api.request_serializer import RequestSerializer
from appliance.api.views import UNSAFE_METHODS, ApplianceView, supports_dry_run

DRY_RUN = OpenApiParameter(
    "dry_run",
    bool,
    description="If true, the request is executed and rolled back; the response shows the outcome.",
)


class FieldProblemSerializer(serializers.Serializer[dict[str, str]]):
    pointer = serializers.CharField(help_text="JSON pointer to the field in the request body.")
    code = serializers.CharField()
    message = serializers.CharField()


class ProblemSerializer(serializers.Serializer[dict[str, Any]]):
    """Problem details (RFC 9457). Some problems have more members, such as `blockers`."""

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        # Not class attributes: `errors` is a property of every serializer.
        return {
            "type": serializers.CharField(),
            "title": serializers.CharField(),
            "status": serializers.IntegerField(),
            "code": serializers.CharField(help_text="Stable error code for programs."),
            "detail": serializers.CharField(
                help_text="What is wrong and what to do, in a sentence."
            ),
            "instance": serializers.CharField(required=False),
            "errors": FieldProblemSerializer(many=True, required=False),
        }


class DocumentedSchema(AutoSchema):
    """Adds dry runs, pages and problems to the operations of ApplianceView."""

    def get_override_parameters(self) -> list[Any]:
        has_dry_run = (
            self.method in UNSAFE_METHODS
            and isinstance(self.view, ApplianceView)
            and supports_dry_run(self.view, self.method)
        )
        return [DRY_RUN] if has_dry_run else []

    def _get_paginator(self) -> Any:
        if self.method == "GET" and isinstance(self.view, ApplianceView):
            return CursorPagination()
        return super()._get_paginator()  # type: ignore[no-untyped-call]

    def get_operation(self, *args: Any, **kwargs: Any) -> dict[str, Any] | None:
        operation = super().get_operation(*args, **kwargs)
        if operation is not None and isinstance(self.view, ApplianceView):
            self.resolve_serializer(ProblemSerializer, "response")
            for status in sorted(self.error_statuses(self.view)):
                operation["responses"].setdefault(
                    str(status), {"$ref": "#/components/responses/Problem"}
                )
        return operation

    def _map_serializer(self, serializer: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        schema: dict[str, Any] = super()._map_serializer(serializer, *args, **kwargs)  # type: ignore[no-untyped-call]
        if isinstance(serializer, RequestSerializer):
            schema["additionalProperties"] = False
        return schema

    def _insert_field_validators(self, field: Any, schema: dict[str, Any]) -> None:
        """Omit the alternative of an empty text where the pattern permits it anyway."""
        super()._insert_field_validators(field, schema)  # type: ignore[no-untyped-call]
        if isinstance(field, LineField) and "oneOf" in schema:
            schema.update(schema.pop("oneOf")[0])

    def get_description(self) -> str:  # type: ignore[override]  # as in AutoSchema
        """Return the docstring of the method, or of the view itself; never that of a base class."""
        method = getattr(self.view, self.method.lower(), None)
        return inspect.getdoc(method) or type(self.view).__dict__.get("__doc__") or ""

    def error_statuses(self, view: ApplianceView) -> set[int]:
        """Return the statuses of the problems that the operation can respond with."""
        found = {400, 503}
        if view.privileges.get(self.method) != "public":
            found |= {401, 403}
        if "{" in self.path:
            found.add(404)
        if self.method in UNSAFE_METHODS:
            found |= {404, 409, 412, 415, 422, 507}
        return found | view.extra_error_statuses
