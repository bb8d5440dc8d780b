"""Access logs of HTTP servers, in the common or the combined form.

Their clock ticks once a second, so requests come in herds; and a line is written when the request
has ended, so the lines are not quite in order.
"""

import re
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone

from adaptive_batching.simulation.traffic.traces.format import Format, Request, WallClock
from adaptive_batching.simulation.traffic.traces.lines import SHOWN, Lines

_LINE = re.compile(
    # Clients write into it: the first time is the time, or a line of many would take minutes.
    r"(?>\S+ \S+ .*?\[([0-9]{2})/([A-Z][a-z]{2})/([0-9]{4}):([0-9]{2}):([0-9]{2}):([0-9]{2}) "
    r'([-+])([0-9]{2})([0-9]{2})\]) "(.*)" [0-9]{3} ([0-9]{1,18}|-).*'
)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def _read(lines: Lines, _: str) -> Iterator[Request]:
    clock = WallClock()
    for line in lines:
        match = _LINE.fullmatch(line)
        instant = _instant(match) if match else None
        if match is None or instant is None:
            expected = 'a line such as 1.2.3.4 - - [10/Oct/2000:13:55:36 -0700] "GET /" 200 23'
            raise lines.fault(expected, repr(line[:SHOWN]))
        answered = 1 if match[11] == "-" else max(1, int(match[11]))
        yield Request(clock.since_first(instant), answered, _path(match[10]))


def _path(request: str) -> str | None:
    """The part of `POST /predict?user=7 HTTP/1.1` that says what is asked for."""
    words = request.split(" ")
    return words[1].partition("?")[0] if len(words) > 1 else None


def _instant(match: re.Match[str]) -> datetime | None:
    day, month, year, hour, minute, second, sign, hours, minutes = match.groups()[:9]
    offset = timedelta(hours=int(hours), minutes=int(minutes))
    try:
        zone = timezone(-offset if sign == "-" else offset)
        number = _MONTHS.index(month) + 1
        clock = (int(hour), int(minute), int(second))
        return datetime(int(year), number, int(day), *clock, tzinfo=zone)
    except ValueError:
        return None


ACCESS_LOG = Format(
    name="access-log",
    looks=lambda first: _LINE.fullmatch(first) is not None,
    read=_read,
    described="an access log",
    measures={"cost": "bytes of the answer"},
    own_zero=False,
    in_order=False,
    keyed=True,  # by path: each endpoint has batches of its own
)
