"""URL routes of the appliance."""

from __future__ import annotations

from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import path, re_path
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView

from appliance.accounts import authentication_schemes  # noqa: F401 - for the API's description
from appliance.accounts import group_views as groups
from appliance.accounts import project_views as projects
from appliance.accounts import role_views as roles
from appliance.accounts import token_views as tokens
from appliance.accounts import user_views as users
from appliance.accounts import views as accounts
from appliance.accounts.access_views import AccessView
from appliance.accounts.action_views import ActionView
from appliance.activity import audit_views as audit
from appliance.activity import views as activity
from appliance.activity.bulk import BulkView
from appliance.activity.watch import WatchView
from appliance.alarms import alarm_views as alarms
from appliance.alarms import definition_views as alarm_definitions
from appliance.allocations import allocation_views as allocations
from appliance.allocations import forecast_views as forecasts
from appliance.allocations import maintenance_views as maintenance
from appliance.allocations import partition_views as partitions
from appliance.allocations import session_views as sessions
from appliance.allocations import suspension_views as suspensions
from appliance.allocations.ticket_views import AllocationTicketView
from appliance.allocations.time_to_gpu_views import TimeToGpuView
from appliance.api.errors import Code, problem_type
from appliance.configuration.views import SettingsView, TestMailView
from appliance.fleet import appliance_views as appliance
from appliance.fleet import rotation_views as rotations
from appliance.fleet import ssh_views as ssh
from appliance.fleet import views as fleet
from appliance.http.console import console
from appliance.http.documentation import documentation
from appliance.installation.views import ClientInstallationView
from appliance.inventory import gpu_views as gpus
from appliance.inventory import node_views as nodes
from appliance.inventory.capacity_views import CapacityView
from appliance.inventory.site_views import SiteListView, SiteView
from appliance.notifications.views import NotificationsView
from appliance.pools import pool_views as pools
from appliance.pools import quota_views as quotas
from appliance.pools import reservation_views as reservations
from appliance.runtime import background, disk_space
from appliance.signin import device_login_views as devices
from appliance.signin import login_views as logins
from appliance.signin import passkey_login_views as passkey_logins
from appliance.signin import passkey_views as passkeys
from appliance.signin import password_reset_views as password_resets
from appliance.signin import provider_login_views as provider_logins
from appliance.signin import second_factor_views as second_factors
from appliance.telemetry import views as telemetry


def healthz(request: HttpRequest) -> HttpResponse:
    """Report that the process serves requests."""
    return HttpResponse("ok\n", content_type="text/plain")


def readyz(request: HttpRequest) -> JsonResponse:
    """Report whether the database is readable and initialised, its disk, and whether work failed.

    A database that does not answer is reported with 503. The last two are no reason to send no
    requests: heartbeats and releases go on, and work that failed is started again. The status of
    the appliance names it, for users who sign in.
    """
    from appliance.pools.models import Pool

    disk = disk_space.level().name.lower()
    body = {"disk": disk, "failed_work": bool(background.failed())}
    try:
        return JsonResponse({"ready": Pool.objects.exists(), **body})
    except DatabaseError:
        return JsonResponse({"ready": False, **body}, status=503)


def not_found(request: HttpRequest, exception: Exception | None = None) -> JsonResponse:
    body = {
        "type": problem_type(Code.NOT_FOUND),
        "title": "not found",
        "status": 404,
        "code": "not_found",
        "detail": "The URL does not exist; see /api/docs for the routes.",
    }
    return JsonResponse(body, status=404, content_type="application/problem+json")


def bad_request(request: HttpRequest, exception: Exception | None = None) -> JsonResponse:
    body = {
        "type": problem_type(Code.INVALID),
        "title": "invalid",
        "status": 400,
        "code": "invalid",
        "detail": "The request is malformed: check its Host header and number of parameters.",
    }
    return JsonResponse(body, status=400, content_type="application/problem+json")


def server_error(request: HttpRequest) -> JsonResponse:
    body = {
        "type": problem_type(Code.INTERNAL),
        "title": "internal",
        "status": 500,
        "code": "internal",
        "detail": "The request failed; see the appliance's log.",
    }
    return JsonResponse(body, status=500, content_type="application/problem+json")


handler400 = bad_request
handler404 = not_found
handler500 = server_error

api = "api/v1/"
urlpatterns = [
    path("healthz", healthz),
    path("readyz", readyz),
    path("api/schema", SpectacularAPIView.as_view(authentication_classes=[]), name="schema"),
    path(
        "api/docs",
        SpectacularSwaggerSplitView.as_view(url_name="schema", authentication_classes=[]),
    ),
    path(api + "login", logins.LoginView.as_view()),
    path(api + "browser-login", logins.BrowserLoginView.as_view()),
    path(api + "me", accounts.MeView.as_view()),
    path(api + "sign-in-options", provider_logins.SignInOptionsView.as_view()),
    path(api + "provider-logins", provider_logins.ProviderLoginView.as_view()),
    path(api + "provider-logins/return", provider_logins.ProviderReturnView.as_view()),
    path(api + "password-resets", password_resets.PasswordResetListView.as_view()),
    path(api + "password-resets/completion", password_resets.PasswordResetCompletionView.as_view()),
    path(api + "device-logins", devices.DeviceLoginListView.as_view()),
    path(api + "device-logins/token", devices.DeviceTokenView.as_view()),
    path(api + "device-logins/<str:code>", devices.DeviceLoginView.as_view()),
    path(api + "device-logins/<str:code>/approve", devices.DeviceLoginApproveView.as_view()),
    path(api + "device-logins/<str:code>/deny", devices.DeviceLoginDenyView.as_view()),
    path(api + "second-factor", second_factors.SecondFactorView.as_view()),
    path(api + "second-factor/confirmation", second_factors.SecondFactorConfirmationView.as_view()),
    path(api + "second-factor/recovery-codes", second_factors.RecoveryCodeListView.as_view()),
    path(api + "passkeys", passkeys.PasskeyListView.as_view()),
    path(api + "passkeys/options", passkeys.PasskeyOptionsView.as_view()),
    path(api + "passkeys/<uuid:passkey_id>", passkeys.PasskeyView.as_view()),
    path(api + "passkey-logins", passkey_logins.PasskeyLoginView.as_view()),
    path(api + "passkey-logins/options", passkey_logins.PasskeyLoginOptionsView.as_view()),
    path(api + "me/notifications", NotificationsView.as_view()),
    path(api + "appliance", appliance.ApplianceStatusView.as_view()),
    path(api + "settings", SettingsView.as_view()),
    path(api + "settings/test-mail", TestMailView.as_view()),
    path(api + "bulk", BulkView.as_view()),
    path(api + "sites", SiteListView.as_view()),
    path(api + "sites/<uuid:site_id>", SiteView.as_view()),
    path(api + "capacity", CapacityView.as_view()),
    path(api + "ca", fleet.CaView.as_view()),
    path(api + "client-installation", ClientInstallationView.as_view()),
    path(api + "key-rotations/<str:kind>", rotations.KeyRotationView.as_view()),
    path(api + "key-rotations/<str:kind>/start", rotations.KeyRotationStartView.as_view()),
    path(api + "key-rotations/<str:kind>/advance", rotations.KeyRotationAdvanceView.as_view()),
    path(api + "key-rotations/<str:kind>/abort", rotations.KeyRotationAbortView.as_view()),
    path(api + "enrol", fleet.EnrolView.as_view()),
    path(api + "certificate-renewals", fleet.CertificateRenewalListView.as_view()),
    path(api + "enrolment-tokens", fleet.EnrolmentTokenListView.as_view()),
    path(api + "nodes/enrol-ssh", ssh.SshEnrolmentView.as_view()),
    path(api + "ssh-host-keys", ssh.SshHostKeyListView.as_view()),
    path(api + "ssh-host-keys/<uuid:key_id>", ssh.SshHostKeyView.as_view()),
    path(api + "bundles", fleet.BundleListView.as_view()),
    path(api + "bundles/<str:python>", fleet.BundleView.as_view()),
    path(api + "nodes", nodes.NodeListView.as_view()),
    path(api + "nodes/<uuid:node_id>", fleet.NodeView.as_view()),
    path(api + "nodes/<uuid:node_id>/cordon", nodes.NodeCordonView.as_view()),
    path(api + "nodes/<uuid:node_id>/uncordon", nodes.NodeUncordonView.as_view()),
    path(api + "nodes/<uuid:node_id>/unlock", nodes.NodeUnlockView.as_view()),
    path(
        api + "nodes/<uuid:node_id>/enter-maintenance",
        maintenance.NodeEnterMaintenanceView.as_view(),
    ),
    path(
        api + "nodes/<uuid:node_id>/exit-maintenance", maintenance.NodeExitMaintenanceView.as_view()
    ),
    path(api + "nodes/<uuid:node_id>/blockers", maintenance.NodeBlockerListView.as_view()),
    path(api + "gpus", gpus.GpuListView.as_view()),
    path(api + "gpus/<uuid:gpu_id>", gpus.GpuView.as_view()),
    path(api + "gpus/<uuid:gpu_id>/admit", gpus.GpuAdmitView.as_view()),
    path(api + "gpus/<uuid:object_id>/metrics", gpus.GpuMetricHistoryView.as_view()),
    path(api + "pools", pools.PoolListView.as_view()),
    path(api + "pools/<uuid:pool_id>", pools.PoolView.as_view()),
    path(api + "pools/<uuid:pool_id>/defragmentation", forecasts.PoolDefragmentationView.as_view()),
    path(api + "quotas", quotas.QuotaListView.as_view()),
    path(api + "quotas/<uuid:quota_id>", quotas.QuotaView.as_view()),
    path(api + "reservations", reservations.ReservationListView.as_view()),
    path(api + "reservations/<uuid:reservation_id>", reservations.ReservationView.as_view()),
    path(api + "projects", projects.ProjectListView.as_view()),
    path(api + "projects/<uuid:project_id>", projects.ProjectView.as_view()),
    path(api + "projects/<uuid:object_id>/metrics", telemetry.ProjectMetricHistoryView.as_view()),
    path(api + "departments", projects.DepartmentListView.as_view()),
    path(api + "departments/<uuid:department_id>", projects.DepartmentView.as_view()),
    path(api + "users", users.UserListView.as_view()),
    path(api + "users/<uuid:user_id>", users.UserView.as_view()),
    path(api + "users/<uuid:user_id>/reset-password", users.UserResetPasswordView.as_view()),
    path(api + "users/<uuid:user_id>/second-factor", second_factors.UserSecondFactorView.as_view()),
    path(api + "groups", groups.GroupListView.as_view()),
    path(api + "groups/<uuid:group_id>", groups.GroupView.as_view()),
    path(api + "groups/<uuid:group_id>/members", groups.GroupMemberListView.as_view()),
    path(api + "groups/<uuid:group_id>/members/<uuid:member_id>", groups.GroupMemberView.as_view()),
    path(api + "access", AccessView.as_view()),
    path(api + "actions", ActionView.as_view()),
    path(api + "tokens", tokens.ApiTokenListView.as_view()),
    path(api + "tokens/<uuid:token_id>", tokens.ApiTokenView.as_view()),
    path(api + "roles", roles.RoleListView.as_view()),
    path(api + "roles/<uuid:role_id>", roles.RoleView.as_view()),
    path(api + "role-bindings", roles.RoleBindingListView.as_view()),
    path(api + "role-bindings/<uuid:binding_id>", roles.RoleBindingView.as_view()),
    path(api + "time-to-gpu", TimeToGpuView.as_view()),
    path(api + "allocations", allocations.AllocationListView.as_view()),
    path(api + "allocations/<uuid:allocation_id>", allocations.AllocationView.as_view()),
    path(
        api + "allocations/<uuid:allocation_id>/explanation",
        forecasts.AllocationExplanationView.as_view(),
    ),
    path(
        api + "allocations/<uuid:allocation_id>/heartbeat",
        allocations.AllocationHeartbeatView.as_view(),
    ),
    path(api + "allocations/<uuid:allocation_id>/tickets", AllocationTicketView.as_view()),
    path(
        api + "allocations/<uuid:allocation_id>/suspend",
        suspensions.AllocationSuspendView.as_view(),
    ),
    path(
        api + "allocations/<uuid:allocation_id>/resume",
        suspensions.AllocationResumeView.as_view(),
    ),
    path(
        api + "allocations/<uuid:allocation_id>/force-release",
        allocations.AllocationForceReleaseView.as_view(),
    ),
    path(api + "partitions", partitions.PartitionListView.as_view()),
    path(
        api + "partitions/<uuid:object_id>/metrics",
        partitions.PartitionMetricHistoryView.as_view(),
    ),
    path(api + "sessions", sessions.SessionListView.as_view()),
    path(api + "sessions/<uuid:session_id>", sessions.SessionView.as_view()),
    path(api + "sessions/<uuid:object_id>/metrics", sessions.SessionMetricHistoryView.as_view()),
    path(api + "alarms", alarms.AlarmListView.as_view()),
    path(api + "alarms/<uuid:alarm_id>", alarms.AlarmView.as_view()),
    path(api + "alarms/<uuid:alarm_id>/acknowledge", alarms.AlarmAcknowledgeView.as_view()),
    path(api + "alarms/<uuid:alarm_id>/history", alarms.AlarmHistoryView.as_view()),
    path(api + "alarm-definitions", alarm_definitions.AlarmDefinitionListView.as_view()),
    path(
        api + "alarm-definitions/<uuid:definition_id>",
        alarm_definitions.AlarmDefinitionView.as_view(),
    ),
    path(api + "tasks", activity.TaskListView.as_view()),
    path(api + "tasks/<uuid:task_id>", activity.TaskView.as_view()),
    path(api + "tasks/<uuid:task_id>/cancel", activity.TaskCancelView.as_view()),
    path(api + "tasks/<uuid:task_id>/log", activity.TaskLogView.as_view()),
    path(api + "audit", audit.AuditListView.as_view()),
    path(api + "audit/export", audit.AuditExportView.as_view()),
    path(api + "audit/verification", audit.AuditVerificationView.as_view()),
    path(api + "audit/<uuid:record_id>", audit.AuditView.as_view()),
    path(api + "watch", WatchView.as_view()),
    path(api + "events", activity.EventListView.as_view()),
    path("docs/", documentation),
    path("docs/<path:path>", documentation),
    re_path(r"^(?!api/|static/|assets/|healthz|readyz)(?P<path>[a-z0-9/-]*)$", console),
]
