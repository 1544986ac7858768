"""The log of the three processes of an appliance."""

from __future__ import annotations

import asyncio
import json

from deploy.supervisor import wait_for
from tests.appliance.appliance_process import PASSWORD, ApplianceProcess


def test_log_is_json_on_request_and_has_no_secret(appliance: ApplianceProcess) -> None:
    initial = (appliance.data / "initial-admin-password").read_text().strip()
    enrolment = appliance.manage("create_enrolment_token")
    login = {"username": "admin", "password": initial}
    answer = asyncio.run(
        appliance.client().request("POST", "/api/v1/login", body=login, headers={})
    )
    wait_for("lines", lambda: bool(appliance.log.read_text()), appliance.log)
    text = appliance.log.read_text()
    complete = text.rpartition("\n")[0]  # the appliance may write the next line now
    for line in complete.splitlines():
        assert {"time", "level", "logger", "message"} <= json.loads(line).keys()
    secrets = [initial, enrolment, str(answer["token"]), PASSWORD, "PRIVATE KEY"]
    assert [s for s in secrets if s in text] == []
