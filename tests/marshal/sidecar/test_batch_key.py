"""Which headers are part of the batch key, and with which ones a batch is sent."""

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from adaptive_batching.errors import SettingError
from adaptive_batching.marshal.sidecar.batch_key import (
    ADDRESSES,
    HeaderRules,
    pattern_of,
)
from adaptive_batching.marshal.sidecar.batch_key import IDENTITY as IDENTITY_PATTERNS

HOW_TO = Path(__file__).parents[3] / "docs" / "how-to" / "sidecar" / "batch-key.md"
IDENTITY = [
    *("Accept", "Accept-Language", "Authorization", "Cookie", "Host", "Idempotency-Key"),
    *(
        "X-Api-Key",
        "api-key",
        "api_key",
        "apikey",
        "X_Forwarded_User",
        "Ocp-Apim-Subscription-Key",
        "X-Auth-Token",
        "X-Remote-User",
    ),
    *("X-Forwarded-User", "X-Forwarded-Email", "X-Forwarded-Groups", "X-Forwarded-Client-Cert"),
    *("X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Port", "X-Forwarded-Prefix"),
    *("X-Auth-Request-Email", "OpenAI-Organization", "OpenAI-Project", "X-Amzn-Oidc-Identity"),
    *("X-Client-Cert", "Remote-User", "CF-Access-Client-Id", "X-Goog-IAP-JWT-Assertion"),
]
AN_ADDRESS = ["X-Forwarded-For", "Forwarded", "X-Real-IP", "True-Client-IP", "CF-Connecting-IP"]
OTHERS = ["User-Agent", "X-Request-Id", "traceparent", "X-Tenant", "Content-Type", "Keyless"]


class Member(NamedTuple):
    """A request in a batch."""

    headers: tuple[tuple[str, str], ...]
    addresses: tuple[str, ...]
    own: list[tuple[str, str]]


def members(rules, *requests):
    """Requests with these headers."""
    return [Member(*rules.key(pairs), pairs) for pairs in requests]


@pytest.mark.parametrize("name", IDENTITY)
def test_a_header_of_identity_is_part_of_the_key_however_it_is_spelled(name):
    """Two values are two keys, and none is a third."""
    rules = HeaderRules()
    keys = {rules.key([(each, "a")]) for each in (name, name.lower(), name.upper())}
    assert keys == {(((name.lower(), "a"),), ())}
    assert len({*keys, rules.key([(name, "b")]), rules.key([])}) == 3


@pytest.mark.parametrize("name", AN_ADDRESS)
def test_an_address_is_no_part_of_the_key_unless_it_is_named(name):
    """A server that needs it has it by partition_by."""
    assert HeaderRules().key([(name, "10.0.0.1")]) == ((), (name.lower(),))
    assert HeaderRules([name]).key([(name, "10.0.0.1")]) == (((name.lower(), "10.0.0.1"),), ())


@pytest.mark.parametrize("name", OTHERS)
def test_other_headers_are_no_part_of_the_key_unless_they_are_named(name):
    assert HeaderRules().key([(name, "a")]) == ((), ())


@pytest.mark.parametrize("name", ["X-Tenant", "X-Real-IP"])
def test_a_header_that_is_named_is_so_with_underscores_too(name):
    """Two values are two keys, however it is spelled."""
    rules, spelled = HeaderRules([name]), name.replace("-", "_")
    assert rules.key([(spelled, "a")]) == (((spelled.lower(), "a"),), ())


def test_an_address_in_a_name_with_underscores_is_one_all_the_same():
    """A server behind CGI or WSGI sees no difference."""
    assert HeaderRules().key([("X_Real_IP", "10.0.0.1")]) == ((), ("x-real-ip",))
    named = HeaderRules(["X_Real_IP"]).key([("X_Real_IP", "10.0.0.1"), ("X-Real-IP", "10.0.0.2")])
    assert named == ((("x-real-ip", "10.0.0.2"), ("x_real_ip", "10.0.0.1")), ())


def test_the_key_is_the_same_whatever_the_order_of_names():
    """The order of several values of one name is part of what the server is told."""
    rules = HeaderRules(["X-Tenant"])
    one = [("Cookie", "c"), ("X-Tenant", "1"), ("Accept", "*/*"), ("x-tenant", "0")]
    other = [("Accept", "*/*"), ("X-Tenant", "1"), ("User-Agent", "u"), ("X-Tenant", "0"), one[0]]
    told = (("accept", "*/*"), ("cookie", "c"), ("x-tenant", "1"), ("x-tenant", "0"))
    assert rules.key(one) == rules.key(other) == (told, ())
    assert rules.key(one) != rules.key(one[::-1])


def test_a_batch_of_several_has_its_key_and_no_address():
    """What a member had and the others had not is unknown of all."""
    requests = [
        [("Host", "h"), ("X-Forwarded-For", "10.0.0.1"), ("User-Agent", "a")],
        [("X-Forwarded-For", "10.0.0.2"), ("Host", "h"), ("Forwarded", "for=10.0.0.2;host=x")],
    ]
    rules = HeaderRules()
    sent = rules.for_batch(members(rules, *requests))
    assert sent == [("host", "h"), ("x-forwarded-for", "unknown"), ("forwarded", "for=unknown")]


def test_a_request_that_is_alone_keeps_its_own_headers():
    """As they came, without what is the connection's, the body's or the sidecar's."""
    kept = [
        *(("Host", "h"), ("x-forwarded-for", "10.0.0.1"), ("User-Agent", "a"), ("X-A", "1")),
        *(("Traceparent", "00-1"), ("X-A", "2"), ("Authorization", "b")),
    ]
    gone = [
        *(("Connection", "close, X-Mine, Authorization"), ("X-Mine", "1"), ("TE", "trailers")),
        *(("Content-Length", "3"), ("Content-Type", "a/b"), ("Accept-Encoding", "br")),
        *(("Expect", "100-continue"), ("X-Request-Timeout-Ms", "50"), ("Content-MD5", "x")),
        *(("Adaptive-Batching-Packed", "1"), ("Inference-Header-Content-Length", "7")),
    ]
    rules = HeaderRules()
    assert rules.for_batch(members(rules, gone + kept)) == kept


def test_names_of_one_header_are_spelled_alike():
    """A client library that has two spellings for two headers would send the last one only."""
    assert HeaderRules().for_one([("X-A", "1"), ("x-a", "2")]) == [("X-A", "1"), ("X-A", "2")]


def test_a_shared_header_is_told_to_no_server():
    """Neither by a batch nor by a request that is alone: the server sees the same at any load."""
    rules = HeaderRules(shared_headers=["cookie", "X-Forwarded-For", "X-Any"])
    own = [("Cookie", "c"), ("X-Forwarded-For", "10.0.0.1"), ("X-Any", "1"), ("Host", "h")]
    own += [("X_Forwarded_For", "10.0.0.1"), ("x_any", "1")]
    assert rules.key(own) == ((("host", "h"),), ())
    assert rules.for_one(own) == [("Host", "h")]
    assert rules.for_batch(members(rules, own, own)) == [("host", "h")]


def test_any_number_of_made_up_names_leaves_the_answers_as_they_are():
    """Only so many are remembered."""
    rules = HeaderRules()
    for number in range(2000):
        assert rules.key([(f"X-{number}-Key", "a"), (f"X-{number}", "b")])[0][0][1] == "a"
        assert rules.key([("Cookie", "c")]) == ((("cookie", "c"),), ())


def test_members_cannot_make_up_headers_of_addresses():
    """Else each of many members could add many to the head of one batch."""
    assert HeaderRules().key([("X-Made-Up-Client-IP", "a")]) == ((), ())
    assert all("*" not in name for name in ADDRESSES)


def test_metrics_know_a_header_by_its_pattern():
    """Names are the clients', patterns are not; a name without one is of the configuration."""
    assert [pattern_of(each) for each in ("x-made-up-key", "cookie", "x-tenant", "")] == [
        *("*-Key", "Cookie", "x-tenant", "")
    ]


@pytest.mark.parametrize("name", ["Connection", "Content-Type", "Accept-Encoding", "a b", ""])
@pytest.mark.parametrize("key", ["partition_by", "shared_headers"])
def test_what_can_not_be_such_a_header_is_an_error(key, name):
    with pytest.raises(SettingError, match=f"{key}: .*{name!r}"):
        HeaderRules(**{key: [name]})


def test_a_header_can_not_be_both():
    with pytest.raises(SettingError, match="not in partition_by as well, got 'X-A'"):
        HeaderRules(["x-a"], ["X-A"])


def test_the_how_to_lists_all_headers_of_identity_and_of_addresses():
    """It is what users decide by."""
    text = " ".join(HOW_TO.read_text().split())
    lists = re.findall(r"Headers of (?:identity|addresses) are ([^.]*)\.", text)
    told = [set(re.findall(r"`([^`]+)`", each)) for each in lists]
    assert told[0] == set(IDENTITY_PATTERNS)
    assert {name.lower() for name in told[1]} == set(ADDRESSES)


def test_a_client_cannot_have_a_header_left_out_that_says_on_whose_behalf_it_asks():
    """A proxy before the sidecar may have set it; what says nothing of the kind ends here."""
    named = "X-Tenant, Cookie, x-real-ip, Content-Length, X-Other"
    own = [("X-Tenant", "t"), ("Cookie", "c"), ("X-Real-IP", "10.0.0.1"), ("Content-Length", "3")]
    rules = HeaderRules(["x-tenant"], ["Cookie"])
    pairs = [("Connection", named), ("X-Other", "o"), *own]
    assert rules.for_passed(pairs) == own
    assert rules.for_one(pairs) == [own[0], own[2]]


def test_a_claim_stays_and_is_no_part_of_the_key():
    """`Connection` may name the header of tenants, which keeps no requests apart."""
    rules = HeaderRules(["X-Mine"], ["Cookie"]).with_tenancy_headers("X-Tenant", "")
    own = [("X-Mine", "m"), ("x-tenant", "t")]
    assert rules.for_passed([("Connection", "X-Tenant, X-Other"), *own, ("X-Other", "o")]) == own
    assert rules.key([*own, ("Cookie", "c")]) == ((("x-mine", "m"),), ())
