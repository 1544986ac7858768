"""Names of accounts in every script: which are possible, and which are the same name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from django.conf import settings
from django.db import IntegrityError, transaction
from rest_framework.test import APIClient

from appliance.accounts.models import Source, User
from appliance.api.account_names import comparison_key
from appliance.api.errors import ApplianceError
from appliance.api.refusals import account_text
from appliance.audit.models import AuditRecord
from appliance.signin.external_accounts import new_identity
from tests.appliance.conftest import Cast, body

Clients = Callable[[User | None], Any]
pytestmark = pytest.mark.django_db(databases=list(settings.DATABASES))

SCRIPTS = {
    "latin": "José Ångström",
    "vietnamese": "Nguyễn Thị Hương",
    "greek": "Νίκος",
    "cyrillic": "Анна Ёлкина",
    "armenian": "Արամ",
    "georgian": "ნინო",
    "hebrew": "שָׂרָה",
    "arabic": "مُحَمَّد",
    "persian": "علی\u200cرضا",
    "urdu": "بے\u200cنظیر",
    "syriac": "ܝܘܚܢܢ",
    "devanagari": "लक्ष्मी",
    "devanagari-joiner": "क्\u200dष",
    "devanagari-nukta": "\u095bाकिर",
    "bengali": "রা\u09df",
    "bengali-ya-phalaa": "র\u200d\u09cdযাচেল",
    "gurmukhi": "ਗੁਰਪ੍ਰੀਤ",
    "gujarati": "પટેલ",
    "tamil": "தமிழ்ச்செல்வி",
    "telugu": "రాజ్\u200cకుమార్",
    "kannada": "ರಾಜ್\u200cಕುಮಾರ್",
    "malayalam": "അനിൽ",
    "malayalam-old-chillu": "അവന്\u200d",
    "sinhala": "ප්\u200dරියන්ත",
    "thai": "สมชาย น้ำ",
    "lao": "ຄຳ\u0ec8",
    "khmer": "សុខា",
    "burmese": "အောင်ဆန်း",
    "tibetan": "བསྟན་འཛིན",
    "amharic": "አበበ",
    "japanese": "山田 たろう",
    "chinese": "王小明",
    "korean": "김민수",
    "cherokee": "ᏣᎳᎩ",
    "plane-1": "𞤀𞤣𞤢𞤥",
}
INVISIBLE = {
    "zero-width-space": "ad\u200bmin",
    "soft-hyphen": "admin\u00ad",
    "ligature": "ﬁ",
    "full-width": "ａｌｉｃｅ",
    "decomposed": "Jose\u0301",
    "joiner-in-latin": "ali\u200dce",
    "non-joiner-in-latin": "ali\u200cce",
    "joiner-in-thai": "สม\u200dชาย",
    "joiner-in-arabic": "علی\u200dرضا",
    "non-joiner-first": "\u200cعلی",
    "non-joiner-last": "علی\u200c",
    "non-joiner-twice": "علی\u200c\u200cرضا",
    "joiners-after-virama": "क्\u200d\u200cष",
    "non-joiner-between-scripts": "علی\u200ca",
    "joiner-between-indic-scripts": "क\u200dক",
    "sara-am-in-two": "น\u0e4d\u0e32",
    "sara-am-around-a-tone": "น\u0e4d\u0e49\u0e32",
    "lao-am-in-two": "ຄ\u0ecd\u0eb2",
    "right-to-left-override": "a\u202eb",
    "private-use": "a\ue000",
}
SAME = {
    "case": ("Dana", "dANA"),
    "case-greek": ("Σίσυφος", "ΣΊΣΥΦΟΣ"),
    "case-cyrillic": ("Анна", "анна"),
    "persian-joiner": ("علی\u200cرضا", "علیرضا"),
    "sinhala-joiner": ("ප්\u200dරියන්ත", "ප්රියන්ත"),
    "devanagari-joiners": ("क्\u200dष", "क्\u200cष"),
    "devanagari-nukta": ("\u095bाकिर", "\u091c\u093cाकिर"),
    "malayalam-chillu": ("അവൻ", "അവന്\u200d"),
    "bengali-khanda-ta": ("হঠা\u09ce", "হঠা\u09a4\u09cd\u200d"),
}


def scripts(names: dict[str, str]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("name", names.values(), ids=list(names))


def create(client: Any, name: str) -> Any:
    return client.post("/api/v1/users", {"username": name}, format="json")


def log_in(username: str, password: str) -> Any:
    content = {"username": username, "password": password}
    return APIClient().post("/api/v1/login", content, format="json")


@scripts(SCRIPTS)
def test_name_of_each_script_is_created_signs_in_and_is_audited(
    cast: Cast, client_of: Clients, name: str
) -> None:
    admin = client_of(cast.admin)
    made = create(admin, name)
    assert made.status_code == 201, body(made)
    assert body(made)["username"] == name
    found = body(admin.get(f"/api/v1/users?username={quote(name)}"))["items"]
    assert [row["username"] for row in found] == [name]
    signed_in = log_in(name, body(made)["one_time_password"])
    assert signed_in.status_code == 200, body(signed_in)
    client = APIClient(headers={"Authorization": f"Bearer {body(signed_in)['token']}"})
    assert body(client.get("/api/v1/me"))["username"] == name
    listed = body(admin.get(f"/api/v1/audit?actor={quote(name)}"))["items"]
    assert {row["object_kind"] for row in listed} == {"token"}, "its sign-in"
    assert account_text(name) == name, "refused logins are of the account"
    assert create(admin, name).status_code == 409


@scripts(SCRIPTS)
def test_provider_makes_an_account_of_each_script(cast: Cast, name: str) -> None:
    new_identity(issuer="i", subject="s", username=name, email="", source=Source.OIDC)
    assert AuditRecord.objects.filter(object_kind="user", object_name=name).exists()


@scripts(INVISIBLE)
def test_name_that_looks_like_another_is_refused(cast: Cast, client_of: Clients, name: str) -> None:
    refused = create(client_of(cast.admin), name)
    assert refused.status_code == 400, body(refused)
    with pytest.raises(ApplianceError, match="username has characters"):
        new_identity(issuer="i", subject="s", username=name, email="", source=Source.OIDC)


@pytest.mark.parametrize("names", SAME.values(), ids=list(SAME))
@pytest.mark.parametrize("turn", [1, -1], ids=["first", "second"])
def test_names_that_differ_by_case_or_joiners_are_one_name(
    cast: Cast, client_of: Clients, names: tuple[str, str], turn: int
) -> None:
    admin, (one, other) = client_of(cast.admin), names[::turn]
    assert create(admin, one).status_code == 201
    refused = create(admin, other)
    assert refused.status_code == 409 and one in body(refused)["detail"]
    with pytest.raises(ApplianceError, match="another account"):
        new_identity(issuer="i", subject="s", username=other, email="", source=Source.OIDC)
    with pytest.raises(IntegrityError), transaction.atomic():
        User.objects.bulk_create([User(username=other)])


@scripts(SCRIPTS)
def test_key_does_not_change_when_it_is_made_again(name: str) -> None:
    key = comparison_key(name)
    assert comparison_key(key) == key
