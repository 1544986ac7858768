"""Commands tell when the maximum of a pool shortens the lifetime that they request."""

from __future__ import annotations

import pytest
from django.conf import settings

from appliance.pools.models import Pool
from remoting.cli import run_command
from tests.appliance.commands_in_process import Busbar, InProcessApi
from tests.appliance.test_resizing import Client

pytestmark = pytest.mark.django_db(databases=list(settings.DATABASES))
NOTICE = "the lifetime is 1d instead of 2d12h: the maximum of pool default"


@pytest.fixture
def maximum(alice: Client) -> None:
    assert Pool.objects.filter(name="default").update(max_lifetime_seconds=86400) == 1


@pytest.mark.parametrize("line", ["allocation create", "allocation create --dry-run"])
def test_shortened_lifetime_is_told(maximum: None, busbar_of_alice: Busbar, line: str) -> None:
    done = busbar_of_alice(*line.split(), "-p", "5", "--lifetime", "60h")
    assert done.status == 0 and NOTICE in done.err and NOTICE not in done.out, done


@pytest.mark.parametrize("lifetime", [[], ["--lifetime", "1d"]])
def test_lifetime_within_the_maximum_needs_no_notice(
    maximum: None, busbar_of_alice: Busbar, lifetime: list[str]
) -> None:
    done = busbar_of_alice("allocation", "create", "-p", "5", *lifetime)
    assert (done.status, done.err) == (0, ""), done


def test_run_tells_the_shortened_lifetime(
    maximum: None, alice: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    request = {"percent": 5, "lifetime_seconds": 60 * 3600}
    made = run_command.create(InProcessApi(alice.client), ["true"], request)
    assert made["lifetime_seconds"] == 86400 and NOTICE in capsys.readouterr().err
