"""REST views of quotas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar
from uuid import UUID

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from appliance.accounts.models import User
from appliance.accounts.resources import Resource, Values
from appliance.api.fields import NameField
from appliance.api.filters import parse_choice, parse_id
from appliance.api.listing import CREATED
from appliance.api.pagination import Order
from appliance.api.request_serializer import ModelRequestSerializer
from appliance.api.views import ApplianceView
from appliance.pools import quotas
from appliance.pools.models import Quota
from appliance.pools.subject_kind import SubjectKind
from appliance.pools.subjects import subject_names

KINDS = [k.value for k in SubjectKind]
MAX_GPUS = 100_000
QUOTA_HELP = "Guaranteed number of GPUs. Without it: no guarantee."
LIMIT_HELP = "Maximum number of GPUs. Without it: no limit."
SETTINGS = ("quota_gpus", "limit_gpus", "borrows", "weight")


@extend_schema_field({"type": "number", "format": "double", "minimum": 0, "maximum": MAX_GPUS})
class GpusField(serializers.Field[int, float, float | None, Any]):
    """A number of GPUs such as 2.3 in JSON; 230 percent in Python."""

    def to_representation(self, value: int) -> float:
        return value / 100

    def to_internal_value(self, data: Any) -> int:
        if isinstance(data, bool) or not isinstance(data, int | float) or not 0 <= data <= MAX_GPUS:
            raise serializers.ValidationError(
                f"Expected a number of GPUs between 0 and {MAX_GPUS}, such as 2.3."
            )
        return round(data * 100)


class QuotaSettingsSerializer(ModelRequestSerializer[Quota]):
    quota_gpus = GpusField(
        source="quota_percent", required=False, allow_null=True, help_text=QUOTA_HELP
    )
    limit_gpus = GpusField(
        source="limit_percent", required=False, allow_null=True, help_text=LIMIT_HELP
    )

    class Meta:
        model = Quota
        fields: tuple[str, ...] = SETTINGS


class QuotaRequestSerializer(QuotaSettingsSerializer):
    subject_kind = serializers.ChoiceField(KINDS)
    subject = NameField(max_length=150, help_text="Name of the user, project or department.")

    class Meta(QuotaSettingsSerializer.Meta):
        fields = (*SETTINGS, "subject_kind", "subject")


# For lists, the context provides the names of the subjects as `names`.
class QuotaSerializer(serializers.ModelSerializer[Quota]):
    subject_kind = serializers.ChoiceField(KINDS)
    subject = serializers.SerializerMethodField(
        help_text="Name of the user, project or department; null if it was deleted."
    )
    quota_gpus = GpusField(source="quota_percent", allow_null=True, help_text=QUOTA_HELP)
    limit_gpus = GpusField(source="limit_percent", allow_null=True, help_text=LIMIT_HELP)

    class Meta:
        model = Quota
        fields = ("id", "subject_kind", "subject", *SETTINGS, "version", "created_at")

    def get_subject(self, quota: Quota) -> str | None:
        names: dict[UUID, str] = self.context.get("names") or subject_names([quota])
        return names.get(quota.subject_id)


def described(found: list[Quota]) -> list[Mapping[str, Any]]:
    """Return the bodies of quotas. Reads the names of their subjects together."""
    context = {"names": subject_names(found)}
    return list(QuotaSerializer(found, many=True, context=context).data)


QUOTAS = Resource(
    QuotaSerializer,
    {
        "subject_kind": ("subject_kind", parse_choice(*KINDS)),
        "subject_id": ("subject_id", parse_id),
    },
    CREATED | {"subject_kind": Order("subject_kind")},
    rows=Quota.objects.visible_to,
    kind=quotas.QUOTAS,
    represent=lambda _, found: described(found),
)


class QuotaListView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "pools.view", "POST": "pools.manage"}
    created: ClassVar[dict[str, str]] = {"POST": "quotas"}

    get = QUOTAS.lists("List quotas.")

    @QUOTAS.creates(QuotaRequestSerializer)
    def post(self, user: User, values: Values) -> Quota:
        """Create the quota of a user, project or department."""
        kind = SubjectKind(values.pop("subject_kind"))
        return quotas.create_quota(kind=kind, actor=user.username, **values)


class QuotaView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {
        "GET": "pools.view",
        "PATCH": quotas.UPDATE.privilege,
        "DELETE": quotas.DELETE.privilege,
    }

    get = QUOTAS.shows("Return one quota.")

    @QUOTAS.changes(QuotaSettingsSerializer)
    def patch(self, user: User, quota: Quota, values: Values) -> Quota:
        """Change a quota."""
        return quotas.update_quota(quota_id=quota.pk, actor=user.username, **values)

    @QUOTAS.deletes()
    def delete(self, user: User, quota: Quota) -> None:
        """Delete a quota. Its subject then has neither a guarantee nor a limit."""
        quotas.delete_quota(quota_id=quota.pk, actor=user.username)
