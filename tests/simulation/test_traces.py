"""Traces are read as they are, and every fault names its file, its line and what was expected."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adaptive_batching.errors import TraceError
from adaptive_batching.simulation.traces import read_trace, speedup

RECORDED = Path(__file__).parents[2] / "../shared/traces"
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
    "empty file": (b"", 1, "the header 't_seconds,size', got an empty"),
    "no header": (b"0.0,1\n", 1, "the header 't_seconds,size', got 0.0,1"),
    "another header": (b"time,size\n0,1\n", 1, "the header 't_seconds,size', got time,size"),
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
    "negative": (b"t_seconds,size\n-1,1\n", 2, "0 seconds or more, got -1"),
    "out of order": (HEAD + b"2,1\n1.5,1\n", 4, "times in order, 2.0 or later, got 1.5"),
    "size 0": (HEAD + b"1,0\n", 3, "empty or an integer from 1, got '0'"),
    "size below 0": (HEAD + b"1,-3\n", 3, "empty or an integer from 1, got '-3'"),
    "half a size": (HEAD + b"1,1.5\n", 3, "empty or an integer from 1, got '1.5'"),
    "huge size": (HEAD + b"1," + b"9" * 5000, 3, "empty or an integer from 1, got '9999"),
    "bad UTF-8": (HEAD + b"1,\xff\n", 3, "UTF-8, got the byte 0xff"),
    "truncated gzip": (gzip.compress(HEAD)[:-9], 3, "intact gzip data, got Compressed file"),
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
    assert len(str(caught.value)) < len(str(path)) + 200


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


def test_speedup():
    """Times are divided; the irregularity stays."""
    assert speedup(np.array([0.0, 1.0, 4.0]), 2.0).tolist() == [0.0, 0.5, 2.0]


@pytest.mark.parametrize("factor", [0.0, -1.0, float("nan"), float("inf")])
def test_impossible_speedup(factor):
    """It is positive and finite."""
    with pytest.raises(ValueError, match="speedup: expected a positive number"):
        speedup(np.array([1.0]), factor)


def test_a_speedup_beyond_all_numbers():
    """Times stay finite, or the factor is named."""
    with pytest.raises(ValueError, match="expected a factor that leaves times finite, got 1e-300"):
        speedup(np.array([1e9]), 1e-300)


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
