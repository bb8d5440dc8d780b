"""Which headers keep the requests of a route apart, and which are sent on with a batch.

A header falls into one of four kinds by its name alone:

* one of identity (`IDENTITY`, `partition_by`) is part of the batch key and is sent on;
* one of an address (`ADDRESSES`) is sent on with the value `unknown`, for a batch has none;
* a shared one (`shared_headers`) is neither part of the key nor sent on;
* any other is sent on by a request that is alone in its batch, and by no other.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from fnmatch import translate
from operator import itemgetter
from typing import Protocol, TypeAlias

from adaptive_batching.errors import SettingError
from adaptive_batching.marshal.checks import check_header_name
from adaptive_batching.marshal.sidecar.proxy_headers import HOP_BY_HOP
from adaptive_batching.wire.whole_requests import MARK

Pairs: TypeAlias = Iterable[tuple[str, str]]
Told: TypeAlias = tuple[tuple[str, str], ...]

IDENTITY = (
    *("Accept", "Accept-Language", "Authorization", "*-Authorization", "Cookie", "Host"),
    *("*-Key", "Apikey", "*-Apikey", "*-Token", "Token", "*-User", "X-User-*", "X-Consumer-*"),
    *("Remote-*", "X-Remote-*", "X-Auth-Request-*", "X-Forwarded-*", "X-Client-Cert*"),
    *("Client-Cert*", "X-SSL-Client-*", "X-Amzn-Oidc-*", "X-Goog-Authenticated-User-*"),
    *("X-Goog-IAP-*", "X-MS-Client-Principal*", "CF-Access-*"),
    *("OpenAI-Organization", "OpenAI-Project"),
)
"""Patterns of headers that say for which user a request is made."""

ADDRESSES = {
    "forwarded": "for=unknown",  # RFC 7239, 6.2
    "cf-connecting-ip": "unknown",
    "cf-connecting-ipv6": "unknown",
    "true-client-ip": "unknown",
    "x-client-ip": "unknown",
    "x-cluster-client-ip": "unknown",
    "x-envoy-external-address": "unknown",
    "x-forwarded-for": "unknown",
    "x-original-forwarded-for": "unknown",
    "x-real-ip": "unknown",
}
"""Headers that proxies put a client's address into, and what a batch of several says in them.

They are names and no patterns, so that the members of a batch cannot add any number of them."""

_OF_THE_BODY = frozenset(
    {"content-digest", "content-length", "content-md5", "content-type", "digest", "repr-digest"}
    | {"inference-header-content-length"}
)
_OTHERWISE = {
    "accept-encoding": "the server is asked for identity, for a batch's answer has to be cut",
    "expect": "the sidecar itself answers it",
    "http2-settings": "the sidecar speaks HTTP/1.1 to servers",
    "x-request-timeout-ms": "the server is told the longest time that is left in the batch",
    MARK: "it says that a body is packed, which no client may",
}
"""Headers that the server is not told as their clients said them, and why."""

_NOT_PASSED_ON = HOP_BY_HOP | {"expect", "http2-settings", MARK}
_NOT_SENT_ON = HOP_BY_HOP | _OF_THE_BODY | frozenset(_OTHERWISE)
_PATTERNS = re.compile("|".join(f"({translate(each.lower())})" for each in IDENTITY))
_REMEMBERED = 256  # names; a client may make up any number of them


class Member(Protocol):
    """A request in a batch, as `HeaderRules.for_batch` looks at it."""

    @property
    def headers(self) -> Told:
        """Its part of the batch key, by `HeaderRules.key`."""
        ...

    @property
    def addresses(self) -> tuple[str, ...]:
        """The headers of addresses that it has, by `HeaderRules.key`."""
        ...

    @property
    def own(self) -> Pairs:
        """All of its headers, as they came."""
        ...


class _Names(dict[str, str]):
    """Remembers what `find` says of some names; faster than `functools.lru_cache`."""

    def __init__(self, find: Callable[[str], str]) -> None:
        super().__init__()
        self._find = find

    def __missing__(self, name: str) -> str:
        if len(self) >= _REMEMBERED:
            self.clear()
        self[name] = found = self._find(name)
        return found


class HeaderRules:
    """Says what becomes of each header of a route's requests.

    Args:
        partition_by: Headers of identity besides `IDENTITY`.
        shared_headers: Headers that are neither part of the key nor sent on.
        tenancy_headers: Headers that the sidecar itself reads; empty names are none.

    Raises:
        SettingError: One can't be such a header, or is in both.
    """

    def __init__(
        self,
        partition_by: Sequence[str] = (),
        shared_headers: Sequence[str] = (),
        *,
        tenancy_headers: Iterable[str] = (),
    ) -> None:
        _check("partition_by", partition_by)
        _check("shared_headers", shared_headers)
        self.partition_by = frozenset(_usual(each.lower()) for each in partition_by)
        self._shared = frozenset(_usual(each.lower()) for each in shared_headers)
        for header in shared_headers:
            if _usual(header.lower()) in self.partition_by:
                msg = f"expected a header that is not in partition_by as well, got {header!r}"
                raise SettingError("shared_headers", msg)
        self._settings = partition_by, shared_headers
        self._tenancy_headers = frozenset(map(str.lower, tenancy_headers))
        self._addresses = frozenset(ADDRESSES) - self.partition_by
        self._known = _Names(self._find)

    def with_tenancy_headers(self, *names: str) -> "HeaderRules":
        """These rules where the sidecar itself reads some headers: of the tenant, the priority.

        `Connection` removes none of them, and they are no part of the batch key for that.
        """
        return HeaderRules(*self._settings, tenancy_headers=names)

    def key(self, pairs: Pairs) -> tuple[Told, tuple[str, ...]]:
        """Take from a request's headers its part of the batch key, and which addresses it has.

        Args:
            pairs: Names and values, in their order.

        Returns:
            The headers of identity, names in lower case and sorted, those of one name in their
            order; and the names of its headers of addresses.
        """
        told: list[tuple[str, str]] = []
        addresses: tuple[str, ...] = ()
        known, hidden = self._known, self._addresses
        for name, value in pairs:
            low = known[name]
            if not low:
                continue
            if low in hidden:
                addresses += (low,)
            else:
                told.append((low, value))
        told.sort(key=itemgetter(0))
        return tuple(told), addresses

    def for_batch(self, members: Sequence[Member]) -> list[tuple[str, str]]:
        """The headers with which a batch is sent, besides those about its body."""
        first = members[0]
        if len(members) == 1:
            return self.for_one(first.own)
        names = dict.fromkeys(name for each in members for name in each.addresses)
        return [*first.headers, *((name, ADDRESSES[name]) for name in names)]

    def for_one(self, pairs: Pairs) -> list[tuple[str, str]]:
        """The headers with which a request that is alone in its batch is sent: all of its own.

        Left out are those that end with the connection or that the sidecar writes itself.
        """
        kept = self._kept(pairs, _NOT_SENT_ON)
        if not self._shared:
            return kept
        return [(name, value) for name, value in kept if _usual(name.lower()) not in self._shared]

    def for_passed(self, pairs: Pairs) -> list[tuple[str, str]]:
        """The headers with which a request is passed on: all but those of the connection."""
        return self._kept(pairs, _NOT_PASSED_ON)

    def _kept(self, pairs: Pairs, left_out: frozenset[str]) -> list[tuple[str, str]]:
        """All but some and what `Connection` names (RFC 9110, 7.6.1).

        A client cannot have a header left out that says on whose behalf it asks, how urgent it is,
        or where the body ends: another proxy may have set it.
        """
        own = [(name, name.lower(), value) for name, value in pairs]
        said = ",".join([value for _, low, value in own if low == "connection"])
        named = {each.strip().lower() for each in said.split(",")} - _OF_THE_BODY
        gone = (
            left_out
            | {each for each in named if not self._known[each]}
            - self._shared
            - self._tenancy_headers
        )
        spelled: dict[str, str] = {}  # aiohttp keeps the last of names that differ in case only
        kept = [each for each in own if each[1] not in gone]
        return [(spelled.setdefault(low, name), value) for name, low, value in kept]

    def _find(self, name: str) -> str:
        """The name in lower case of a header of identity or of an address; empty for others."""
        low = name.lower()
        usual = _usual(low)
        if usual in self._shared or low in _NOT_SENT_ON:
            return ""
        if usual in ADDRESSES and usual not in self.partition_by:
            return usual
        return low if usual in self.partition_by or _PATTERNS.match(usual) else ""


def pattern_of(name: str) -> str:
    """The pattern of `IDENTITY` that a name has; the name itself if it has none."""
    found = None if name in ADDRESSES else _PATTERNS.match(_usual(name))
    return IDENTITY[found.lastindex - 1] if found and found.lastindex else name


def _usual(low: str) -> str:
    """What a server takes a name for: CGI and WSGI know no difference between `_` and `-`."""
    return low.replace("_", "-")


def _check(key: str, headers: Sequence[str]) -> None:
    for header in headers:
        check_header_name(key, header)
        if header.lower() in HOP_BY_HOP | _OF_THE_BODY:
            msg = f"expected headers that say something of the client, got {header!r}"
            raise SettingError(key, msg)
        if why := _OTHERWISE.get(header.lower()):
            msg = f"expected headers that the server is told as they came, got {header!r}: {why}"
            raise SettingError(key, msg)
