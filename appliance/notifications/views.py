"""REST resource me/notifications: which mails the caller gets."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.accounts.authentication import request_user
from appliance.accounts.models import User
from appliance.api.fields import StrictBooleanField
from appliance.api.request_serializer import RequestSerializer
from appliance.api.views import ApplianceView
from appliance.configuration import mail
from appliance.notifications.models import NotificationChoice, NotificationKind
from appliance.notifications.services import choose

HELP = {
    NotificationKind.START: "A request that has waited got its GPUs.",
    NotificationKind.LIFETIME: "The lifetime of an allocation ends soon.",
    NotificationKind.RECLAIM: "The appliance takes GPUs back, or has done so.",
    NotificationKind.ALARM: "An alarm whose definition names the user was raised or cleared.",
}


class NotificationChoiceSerializer(RequestSerializer[dict[str, Any]]):
    start = StrictBooleanField(required=False, help_text=HELP[NotificationKind.START])
    lifetime = StrictBooleanField(required=False, help_text=HELP[NotificationKind.LIFETIME])
    reclaim = StrictBooleanField(required=False, help_text=HELP[NotificationKind.RECLAIM])
    alarm = StrictBooleanField(required=False, help_text=HELP[NotificationKind.ALARM])


class NotificationsSerializer(serializers.Serializer[dict[str, Any]]):
    email = serializers.CharField(
        allow_blank=True,
        help_text="Address of the user, to which mail is sent; empty if there is none.",
    )
    is_mail_set_up = serializers.BooleanField(help_text="Whether the appliance sends mail.")
    start = serializers.BooleanField(help_text=HELP[NotificationKind.START])
    lifetime = serializers.BooleanField(help_text=HELP[NotificationKind.LIFETIME])
    reclaim = serializers.BooleanField(help_text=HELP[NotificationKind.RECLAIM])
    alarm = serializers.BooleanField(help_text=HELP[NotificationKind.ALARM])


def describe(user: User) -> dict[str, Any]:
    choice = NotificationChoice.objects.filter(user=user).first()
    unwanted = choice.unwanted if choice else []
    wanted = {kind.value: kind not in unwanted for kind in NotificationKind}
    return {"email": user.email, "is_mail_set_up": mail.is_set_up()} | wanted


class NotificationsView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "account.self", "PATCH": "account.self"}

    @extend_schema(responses=NotificationsSerializer)
    def get(self, request: Request) -> Response:
        """Return which mails about allocations and alarms the caller gets."""
        return Response(describe(request_user(request)))

    @extend_schema(request=NotificationChoiceSerializer, responses=NotificationsSerializer)
    def patch(self, request: Request) -> Response:
        """Choose which mails about allocations and alarms the caller gets.

        Fields that are absent keep their values. The settings of the appliance can turn off a
        kind for all users.
        """
        form = NotificationChoiceSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        choose(user=request_user(request), choices=form.validated_data)
        return Response(describe(request_user(request)))
