"""Traces are read as they are, and every fault names its file, its line and what was expected."""

import gzip
from math import isnan
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adaptive_batching.core import RECORDING
from adaptive_batching.errors import TraceError
from adaptive_batching.simulation.traffic.traces import Request, read_trace, stream_trace

RECORDED = Path(__file__).parents[3] / "../shared/traces"
GOOD = b"t_seconds,size\n0.0,5\n0.5,\n0.5,7\n"


@pytest.fixture
def written(tmp_path):
    def write(content: bytes, name: str = "trace.csv") -> Path:
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return write


def test_a_plain_trace(written):
    """An empty size counts as one item; times may repeat."""
    trace = read_trace(written(GOOD))
    assert trace.times.tolist() == [0.0, 0.5, 0.5]
    assert trace.sizes.tolist() == [5, 1, 7]


@pytest.mark.parametrize("name", ["trace.csv.gz", "trace.csv", "trace"])
def test_gzip_is_told_by_content(written, name):
    """Names do not matter."""
    assert read_trace(written(gzip.compress(GOOD), name)).sizes.tolist() == [5, 1, 7]
    assert read_trace(written(GOOD, name)).sizes.tolist() == [5, 1, 7]


def test_line_ends_of_other_systems(written):
    """Carriage returns and a missing last line end are no fault."""
    assert len(read_trace(written(GOOD.replace(b"\n", b"\r\n").rstrip())).times) == 3


@given(
    st.lists(st.tuples(st.floats(0, 1e9), st.none() | st.integers(1, 10**18 - 1)), min_size=1).map(
        lambda rows: sorted(rows, key=lambda row: row[0])
    ),
    st.booleans(),
)
def test_what_is_written_is_read(tmp_path_factory, rows, zipped):
    """Every float and every size comes back to the last bit."""
    lines = [f"{t!r},{'' if size is None else size}\n" for t, size in rows]
    content = ("t_seconds,size\n" + "".join(lines)).encode()
    path = tmp_path_factory.getbasetemp() / "roundtrip"
    path.write_bytes(gzip.compress(content) if zipped else content)
    trace = read_trace(path)
    assert trace.times.tolist() == [t for t, _ in rows]
    assert trace.sizes.tolist() == [size or 1 for _, size in rows]


HEAD = b"t_seconds,size\n0,1\n"

FAULTS = {
    "empty file": (b"", 1, "an access log, got an empty line or file"),
    "no header": (b"0.0,1\n", 1, "one of the header 't_seconds,size', "),
    "another header": (b"time,size\n0,1\n", 1, "got 'time,size'"),
    "no rows": (b"t_seconds,size\n", 2, "at least one request, got the end"),
    "one column": (HEAD + b"1\n", 3, "2 columns, got 1 in '1'"),
    "three columns": (HEAD + b"1,2,3\n", 3, "2 columns, got 3 in '1,2,3'"),
    "blank line": (HEAD + b"\n1,1\n", 3, "2 columns, got 1 in ''"),
    "not a number": (HEAD + b"soon,1\n", 3, "a finite number of seconds, got 'soon'"),
    "no time": (HEAD + b",1\n", 3, "a finite number of seconds, got ''"),
    "underscores": (HEAD + b"1_0,1\n", 3, "a finite number of seconds, got '1_0'"),
    "not a number at all": (HEAD + b"nan,1\n", 3, "a finite number of seconds, got 'nan'"),
    "infinite": (HEAD + b"inf,1\n", 3, "a finite number of seconds, got 'inf'"),
    "too large": (HEAD + b"1e999,1\n", 3, "a finite number of seconds, got '1e999'"),
    "beyond sums": (HEAD + b"1e308,1\n", 3, "a time within 1e+18 seconds, got '1e308'"),
    "negative": (b"t_seconds,size\n-1,1\n", 2, "0 seconds or more, got -1"),
    "out of order": (HEAD + b"2,1\n1.5,1\n", 4, "times in order, 2.0 or later, got 1.5"),
    "size 0": (HEAD + b"1,0\n", 3, "an integer from 1, got '0'"),
    "size below 0": (HEAD + b"1,-3\n", 3, "an integer from 1, got '-3'"),
    "half a size": (HEAD + b"1,1.5\n", 3, "an integer from 1, got '1.5'"),
    "huge size": (HEAD + b"1," + b"9" * 5000, 3, "an integer from 1, got '9999"),
    "bad UTF-8": (HEAD + b"1,\xff\n", 3, "UTF-8, got the byte 0xff"),
    "truncated gzip": (gzip.compress(HEAD)[:-9], 3, "gzip data, got a file that ends too soon"),
    "corrupt gzip": (gzip.compress(HEAD)[:-6] + b"\0" * 6, 3, "intact gzip data, got CRC"),
    "only gzip's name": (b"\x1f\x8b", 1, "intact gzip data"),
    "broken deflate": (gzip.compress(HEAD)[:10] + b"\xff" * 30, 1, "intact gzip data, got Error"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults(written, name):
    """File, line, what was expected and what was there."""
    content, line, message = FAULTS[name]
    path = written(content)
    with pytest.raises(TraceError) as caught:
        read_trace(path)
    assert str(caught.value).startswith(f"{path}, line {line}: expected ")
    assert message in str(caught.value)
    assert len(str(caught.value)) < len(str(path)) + 400


@given(st.binary(max_size=300))
def test_rubbish_is_a_trace_error(tmp_path_factory, content):
    """Whatever the bytes, plain, zipped or damaged, nothing else is raised."""
    path = tmp_path_factory.getbasetemp() / "rubbish"
    for damaged in (content, HEAD + content, gzip.compress(HEAD)[:20] + content):
        path.write_bytes(damaged)
        try:
            trace = read_trace(path)
        except TraceError:
            continue
        assert len(trace.times) == len(trace.sizes) > 0


def test_no_file(tmp_path):
    """A missing file and a folder are named."""
    with pytest.raises(TraceError, match="nowhere: expected a readable file, got No such file"):
        read_trace(tmp_path / "nowhere")
    with pytest.raises(TraceError, match="expected a readable file, got Is a directory"):
        read_trace(tmp_path)


@pytest.mark.skipif(not RECORDED.is_dir(), reason="the recorded traces are not beside the project")
@pytest.mark.parametrize(
    ("name", "requests"),
    [
        ("azure_llm_2023_conv", 19_366),
        ("disb_real_5models", 1_684),
        ("mooncake_conv_tick3s", 12_031),
    ],
)
def test_recorded_traces(name, requests):
    """Real recordings are read in full."""
    assert len(read_trace(RECORDED / f"{name}.csv.gz").times) == requests


RAW = {
    "azure_llm_2023_conv.csv": (1_999, 0.0, 423.184, 374),
    "azure_functions_2021_first200.csv": (199, 0.0, 1200.013, 78),
    "mooncake_conversation_trace.jsonl": (2_000, 0.0, 669.0, 6758),
    "disb_REAL.json": (1_684, 0.0, 38.885, 1),
}


@pytest.mark.skipif(not RECORDED.is_dir(), reason="the recorded traces are not beside the project")
@pytest.mark.parametrize("name", RAW)
def test_original_formats(name):
    """As their publishers wrote them: the format is told from the content."""
    trace = read_trace(RECORDED / "raw" / name)
    requests, first, last, size = RAW[name]
    assert len(trace.times) == requests
    assert (trace.times[0], trace.times[-1]) == (first, pytest.approx(last, abs=1e-3))
    assert trace.sizes[0] == size
    assert (np.diff(trace.times) >= 0).all()


# ------------------------------------------------------------------------------ the other formats

AZURE = b"TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
FUNCTIONS = b"app,func,end_timestamp,duration\n"
LOG = b'1.2.3.4 - jo [10/Oct/2000:13:55:%s] "GET /a\\"b HTTP/1.0" 200 %s%s\n'
CALL = b'{"timestamp": %s, "input_length": %s, "output_length": 3, "hash_ids": [1]}\n'
DISB = b"""{"tasks": [
    {"load": {"type": "trace", "trace": [100, 300]}},
    {"load": {"type": "closed"}},
    {"load": {"trace": [200]}, "client": {"batch_size": 4}}
]}
"""

SAMPLES = {
    "azure-llm": (
        AZURE + b"2023-11-16 23:59:59.9999999,3,4\r\n2023-11-17 00:00:00.5,0,0\r\n",
        [(0.0, 3), (0.5000001, 1)],
    ),
    "azure-functions": (FUNCTIONS + b"a,b,5.0,1.0\na,c,5.5,2.25\n", [(0.0, 2250), (0.75, 1000)]),
    "mooncake": (
        CALL % (b"500", b"7") + CALL % (b"1500.5", b"0"),
        [(0.5, 7), (1.5005, 1)],
    ),
    "disb": (
        DISB,
        [(0.1, 1), (0.2, 4), (0.3, 1)],
    ),
    "times": (b"1700000000.25\n1700000000.5\n", [(0.0, 1), (0.25, 1)]),
    "instants": (b"2024-02-29T23:59:59Z\n2024-03-01T02:00:00.125+02:00\n", [(0.0, 1), (1.125, 1)]),
    "common log": (LOG % (b"36 -0700", b"2326", b"") * 2, [(0.0, 2326)] * 2),
    "combined log, not in order": (
        LOG % (b"37 +0000", b"-", b' "http://x" "curl"') + LOG % (b"36 +0000", b"5", b' "-" "-"'),
        [(0.0, 5), (1.0, 1)],
    ),
    "instants at both ends of time": (
        b"0001-01-01T00:00:00+14:00\n9999-12-31T23:59:59-14:00\n",
        [(0.0, 1), (315537998399.0, 1)],
    ),
    "a time within a request": (
        LOG.replace(b"GET", b"[11/Oct/2000:13:55:36 -0700]") % (b"36 -0700", b"9", b""),
        [(0.0, 9)],
    ),
    "a byte order mark": (b"\xef\xbb\xbf" + GOOD, [(0.0, 5), (0.5, 1), (0.5, 7)]),
}


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_formats(written, name, pack):
    """Each is told by its first line; times count from the first request or the format's zero."""
    content, expected = SAMPLES[name]
    read = list(stream_trace(written(pack(content), "whatever")))
    assert [request.size for request in read] == [size for _, size in expected]
    times = [time for time, _ in expected]
    assert [request.time for request in read] == pytest.approx(times, abs=1e-9)


@pytest.mark.parametrize(
    ("name", "measure", "size"),
    [("azure-llm", "tokens", 3), ("azure-llm", "cost", 7), ("disb", "items", 1),
     ("azure-functions", "cost", 2250)],
)  # fmt: skip
def test_measures(written, name, measure, size):
    """What a size counts can be chosen among what the format recorded."""
    assert read_trace(written(SAMPLES[name][0]), measure=measure).sizes[0] == size


def test_a_measure_that_was_not_recorded(written):
    """The message says what the format counts."""
    with pytest.raises(TraceError, match="expected tokens, got azure-functions, which counts cost"):
        read_trace(written(SAMPLES["azure-functions"][0]), measure="tokens")
    with pytest.raises(TraceError, match="expected items, got times, which counts nothing"):
        read_trace(written(b"1\n"), measure="items")


def test_a_format_that_is_named(written):
    """It is read as that, whatever it looks like."""
    with pytest.raises(TraceError, match="line 1: expected a finite number of seconds, got 't_se"):
        read_trace(written(GOOD), form="times")


OTHER_FAULTS = {
    "half an Azure row": (AZURE + b"2023-11-16 18:15:46.68,3\n", "line 2: expected 3 columns"),
    "no tokens": (AZURE + b"2023-11-16 18:15:46.68,,4\n", "line 2: expected an integer from 0"),
    "no such day": (AZURE + b"2023-02-30 18:15:46,3,4\n", "line 2: expected a time as"),
    "no Azure rows": (AZURE, "line 2: expected at least one request"),
    "going back": (b"5\n4\n", "line 2: expected times in order, 5.0 or later, got 4.0"),
    "before the start": (b'{"timestamp": -1, "input_length": 1}', "line 1: expected 0 seconds or"),
    "a blank line": (b"1\n\n2\n", "line 2: expected a finite number of seconds, got ''"),
    "seconds, then instants": (b"1\n2024-03-01T00:00:00Z\n", "line 2: expected a finite"),
    "a call that ends before": (FUNCTIONS + b"a,b,5,-1\n", "line 2: expected a duration of 0"),
    "JSON cut short": (b'{"timestamp": 1, "inp', "line 1: expected a JSON object with"),
    "NaN": (b'{"timestamp": NaN, "input_length": 1}', "line 1: expected a JSON object with"),
    "no length": (b'{"timestamp": 1}', "missing required field"),
    "nested without end": (b'{"timestamp":' + b"[" * 100_000, "line 1: expected a JSON object"),
    "no tasks": (b"{}", "as a whole: expected a DISB workload, got Object missing required"),
    "no arrivals": (b'{"tasks": []}', "expected at least one request"),
    "text for a time": (b'{"tasks": [{"load": {"trace": ["1"]}}]}', "expected a DISB workload"),
    "an early DISB": (b'{"tasks": [{"load": {"trace": [-1]}}]}', "expected 0 seconds or more"),
    "a broken log": (LOG % (b"36 -0700", b"1", b"") + b"x\n", "line 2: expected a line such as"),
    "a month of 31": (LOG % (b"36 -9900", b"1", b""), "line 1: expected a line such as"),
    "a span beyond floats": (b"-1e308\n1e308\n", "line 1: expected a time within 1e+18 seconds"),
    "a line of many times": (
        b"1.2.3.4 - - " + b'[10/Oct/2000:13:55:36 -0700] "' * 30_000,  # not in minutes
        "line 1: expected one of",
    ),
    "one endless line": (
        b"1" * (2**20 + 1),
        "line 1: expected a line of less than 1,048,576 bytes",
    ),
    "a bomb of lines": (
        gzip.compress((b"0" * 1000 + b"1\n") * 5000),
        "gzip data that unpack to 200 times",
    ),
    "a bomb of one line": (gzip.compress(b"1" * 2**25), "a line of less than"),
}


@pytest.mark.parametrize("name", OTHER_FAULTS)
def test_faults_of_the_other_formats(written, name):
    """Each names its place, what was expected and what was there."""
    content, message = OTHER_FAULTS[name]
    with pytest.raises(TraceError) as caught:
        read_trace(written(content))
    assert message in str(caught.value)


@pytest.mark.parametrize("name", SAMPLES)
@settings(deadline=None)  # the machine may be busy
@given(st.data())
def test_damaged_files(tmp_path_factory, name, data):
    """Cut anywhere or with any byte changed: it is read or it is a TraceError."""
    content = SAMPLES[name][0]
    place = data.draw(st.integers(0, len(content) - 1))
    byte = data.draw(st.binary(max_size=1))
    path = tmp_path_factory.getbasetemp() / "damaged"
    path.write_bytes(content[:place] + byte + content[place + data.draw(st.integers(0, 50)) :])
    try:
        trace = read_trace(path)
    except TraceError:
        return
    assert (np.diff(trace.times) >= 0).all()
    assert np.isfinite(trace.times).all()
    assert (trace.sizes >= 1).all()


def test_a_stream_opens_nothing_before_it_is_read(tmp_path):
    """And then it reads as it goes: the first requests come before the fault behind them."""
    path = tmp_path / "trace"
    requests = stream_trace(path)
    path.write_bytes(HEAD + b"nonsense\n")
    assert next(requests) == Request(0.0)
    with pytest.raises(TraceError, match="line 3"):
        next(requests)


def test_keys_and_deadlines_of_our_own_form(written):
    """In any order after the time; empty cells say nothing."""
    rows = b"t_seconds,max_latency,key,size\n0,0.5,a,2\n1,,b,\n2,1,,3\n"
    assert list(stream_trace(written(rows))) == [
        Request(0.0, 2, "a", 0.5),
        Request(1.0, 1, "b", None),
        Request(2.0, 3, None, 1.0),
    ]
    trace = read_trace(written(rows), with_keys=True)
    assert trace.keys.tolist() == ["a", "b", None]
    assert trace.max_latencies[[0, 2]].tolist() == [0.5, 1.0]
    assert isnan(trace.max_latencies[1])


@pytest.mark.parametrize("header", [b"t_seconds,size,key,key", b"t_seconds,color", b"t_seconds"])
def test_columns_that_are_not_ours(written, header):
    """The message says which there may be."""
    with pytest.raises(TraceError, match="with ',key', ',max_latency' and ',cost' if known"):
        read_trace(written(header + b"\n0,1,2,3\n"))


@pytest.mark.parametrize("patience", ["0", "-1", "nan", "soon"])
def test_impossible_deadlines(written, patience):
    """Named with the line."""
    rows = f"t_seconds,size,max_latency\n0,1,1\n1,1,{patience}\n".encode()
    with pytest.raises(TraceError, match=r"line 3: expected .*, got"):
        read_trace(written(rows))


@pytest.mark.parametrize(
    ("name", "key"),
    [("azure-functions", "a/f"), ("common log", "/apache_pb.gif"), ("disb", "resnet")],
)
def test_keys_of_other_formats(written, name, key):
    """The function, the path without its query, the task: whose requests run the same code."""
    content = {
        "azure-functions": b"app,func,end_timestamp,duration\na,f,3.0,1.0\n",
        "common log": b'1.2.3.4 - - [10/Oct/2000:13:55:36 -0700] "GET /apache_pb.gif?x=1 HTTP/1.0"'
        b" 200 5\n",
        "disb": b'{"tasks": [{"id": "resnet", "load": {"trace": [0, 5]}}]}',
    }[name]
    assert read_trace(written(content), with_keys=True).keys[0] == key


def test_a_format_without_keys(written):
    """The message says which formats have some."""
    expected = "its keys: expected csv or recording or azure-functions"
    with pytest.raises(TraceError, match=f"{expected}.*, got times, which has none"):
        read_trace(written(b"1\n"), with_keys=True)


def test_costs_of_our_own_form(written):
    """A column of costs is read whether or not it was asked for, beside the sizes."""
    rows = b"t_seconds,size,cost\n0,2,17.5\n1,1,0\n"
    for cost in (None, "tokens"):
        trace = read_trace(written(rows), measure="items", cost=cost)
        assert (trace.sizes.tolist(), trace.costs.tolist()) == ([2, 1], [17.5, 0.0])


@pytest.mark.parametrize(("cost", "costs"), [("tokens", [12.0, 5.0]), ("cost", [15.0, 6.0])])
def test_sizes_as_costs(written, cost, costs):
    """Tokens of a known trace become costs of requests of one item each."""
    rows = (
        b"TIMESTAMP,ContextTokens,GeneratedTokens\n"
        b"2023-11-16 18:15:46.68,12,3\n2023-11-16 18:15:47.68,5,1\n"
    )
    trace = read_trace(written(rows), cost=cost)
    assert (trace.sizes.tolist(), trace.costs.tolist()) == ([1, 1], costs)
    assert not read_trace(written(rows)).costs.any()


def test_sizes_and_costs_need_two_columns(written):
    """One number can't be both."""
    with pytest.raises(TraceError, match="its costs: expected a column of costs, or no sizes"):
        read_trace(written(b"t_seconds,size\n0,1\n"), measure="items", cost="cost")


@pytest.mark.parametrize("cost", ["", "-1", "nan", "1e300"])
def test_no_cost(written, cost):
    """A column of costs has one in each row."""
    with pytest.raises(TraceError, match="line 2: expected a cost of 0 to 9"):
        read_trace(written(f"t_seconds,cost\n0,{cost}\n".encode()))


def test_unknown_costs_of_a_recording(written):
    """A request that was refused before it was weighed costs what a known one does."""
    rows = [RECORDING]
    rows += ["0,1,,0.1,,shed,,,,", "1,1,,0.1,,shed,,,,"]  # before any is known
    rows += [f"{2 + at},1,{8 if at % 2 else 2},0.1,,done,{at},1,0.1,full" for at in range(40)]
    rows += [f"{50 + at},1,,0.1,,shed,,,," for at in range(40)]
    costs = read_trace(written("\n".join(rows).encode())).costs.tolist()
    assert set(costs) == {2.0, 8.0}
    assert costs[:2] == [2.0, 2.0]
    assert 10 < costs[42:].count(2.0) < 30


def test_a_recording_without_any_known_cost(written):
    """Its requests cost nothing."""
    rows = f"{RECORDING}\n0,1,,0.1,,shed,,,,\n1,1,,0.1,,shed,,,,\n".encode()
    assert read_trace(written(rows)).costs.tolist() == [0.0, 0.0]
