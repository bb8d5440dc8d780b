"""The Open Inference Protocol: rows of tensors are merged and split as they came."""

import json
from itertools import pairwise
from struct import pack
from time import thread_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adaptive_batching.wire.exchange import Message, Request, Unsplittable
from adaptive_batching.wire.open_inference import OpenInference
from tests.wire.tensor_texts import JSON_LENGTH, batches, echo, request, signatures, written

DEEP = "[" * 100_000 + "]" * 100_000


def body(size=1, data="[1,2]", shape=None, extra="", more=""):
    shape = shape or [size, 2]
    tensor = f'{{"name":"x","shape":{shape},"datatype":"FP32","data":{data}{extra}}}'
    return request(Message(f'{{"inputs":[{tensor}]{more}}}'.encode()))


def binary(data, datatype="FP32", shape=(1, 2), size=None):
    size = len(data) if size is None else size
    text = json.dumps(
        {
            "inputs": [
                {
                    "name": "x",
                    "shape": shape,
                    "datatype": datatype,
                    "parameters": {"binary_data_size": size},
                }
            ]
        }
    ).encode()
    return request(Message(text + data, {JSON_LENGTH: str(len(text))}))


@given(st.data(), signatures())
def test_merge_and_split_are_inverse(data, signature):
    """From a server that echoes, each client gets his own elements and his own id."""
    form = OpenInference()
    clients = data.draw(st.lists(batches(signature), min_size=2, max_size=4))
    shares = [
        form.take(request(written(signature, batch, id=f'"{number}"')))
        for number, batch in enumerate(clients)
    ]
    assert len({share.key for share in shares}) == 1
    parts = form.split(shares, echo(form.merge(shares)))
    for number, (batch, part) in enumerate(zip(clients, parts, strict=True)):
        assert part == written(signature, batch, "outputs", id=f'"{number}"')


@given(st.data(), signatures(), st.integers(1, 3))
def test_a_batch_is_filled_up_with_one_of_its_rows(data, signature, times):
    """Of any elements, however they are written; a server that echoes shows what it got."""
    form = OpenInference()
    size, columns = data.draw(batches(signature))
    share = form.take(request(written(signature, (size, columns))))
    place = data.draw(st.integers(-1, size - 1))
    pad = form.repeated(share, place, times)
    assert (pad.key, pad.size) == (share.key, times)
    own, more = form.split([share, pad], echo(form.merge([share, pad])))
    begin = place % size  # of the row, in elements of a row
    lengths = [len(column) // size for column in columns]
    rows = [
        column[begin * length :][:length] for column, length in zip(columns, lengths, strict=True)
    ]
    repeated = [row * times for row in rows]
    assert own == written(signature, (size, columns), "outputs")
    assert more == written(signature, (times, repeated), "outputs")


@given(st.data(), signatures())
def test_a_body_in_pieces_is_understood_as_one_in_one_piece(data, signature):
    """Wherever the pieces end: between tensors, within one, or within the text."""
    form = OpenInference()
    came = written(signature, data.draw(batches(signature)), id='"7"')
    ends = sorted(data.draw(st.lists(st.integers(0, len(came.body)))))
    body, *more = (came.body[begin:end] for begin, end in pairwise([0, *ends, len(came.body)]))
    in_pieces = Message(body, came.headers, tail=tuple(map(memoryview, more)))
    one, other = form.take(request(came)), form.take(request(in_pieces))
    assert one.key == other.key
    assert b"".join(form.merge([other]).pieces) == came.body
    assert merged(form, [one, one]) == merged(form, [other, other])
    for piece, same in zip(form.cut(one, 1), form.cut(other, 1), strict=True):
        assert merged(form, [piece, piece]) == merged(form, [same, same])


def test_many_tensors_in_many_pieces_are_read_like_those_in_one():
    """A thousand tensors in a thousand pieces take no more than five times as long."""
    form = OpenInference()
    described = {"shape": [1, 1000], "datatype": "UINT8", "parameters": {"binary_data_size": 1000}}
    inputs = [{"name": str(number), **described} for number in range(1000)]
    text, data = json.dumps({"inputs": inputs}).encode(), bytes(10**6)
    headers = {JSON_LENGTH: str(len(text))}

    def seconds(size):
        tail = [memoryview(data)[begin : begin + size] for begin in range(0, len(data), size)]
        begun = thread_time()
        assert form.take(request(Message(text, headers, tail=tuple(tail)))) is not None
        return thread_time() - begun

    assert min(seconds(999) for _ in range(3)) < 5 * min(seconds(10**6) for _ in range(3))


def merged(form, shares):
    """All bytes of what a server is sent, and what is said of them."""
    message = form.merge(shares)
    return b"".join(message.pieces), message.headers


@given(st.data(), signatures(), st.integers(1, 3))
def test_cut_and_join_are_inverse(data, signature, limit):
    """A request over the limit goes in pieces, and its answer comes back whole."""
    form = OpenInference()
    batch = data.draw(batches(signature))
    share = form.take(request(written(signature, batch, id='"7"')))
    pieces = form.cut(share, limit)
    assert sum(piece.size for piece in pieces) == share.size
    assert all(piece.size <= limit and piece.key == share.key for piece in pieces)
    answers = [echo(form.merge([piece])) for piece in pieces]
    assert form.join(share, answers) == written(signature, batch, "outputs", id='"7"')


def test_alone_it_goes_as_it_came():
    """Spacing, id, priority and all."""
    form = OpenInference()
    alone = body(data="[ 1 , 2 ]", more=', "id": "a", "parameters": {"priority": 1}')
    assert form.merge([form.take(alone)]) == alone.message


def test_what_is_said_to_the_queue_of_the_server_keeps_nobody_apart():
    """Ids, priorities and timeouts may differ, and are not sent on with others; the rest is."""
    form = OpenInference()
    shares = [
        form.take(body(more=f',"id":"{n}","parameters":{{"timeout":{n},"a":1,"priority":{n}}}'))
        for n in range(2)
    ]
    assert shares[0].key == shares[1].key
    assert json.loads(form.merge(shares).body) == {
        "parameters": {"a": 1},
        "inputs": [{"name": "x", "shape": [2, 2], "datatype": "FP32", "data": [1, 2, 1, 2]}],
    }


@pytest.mark.parametrize(
    "other",
    [
        body(data="[[1,2]]"),
        body(shape=[2, 1]),
        body(extra=',"parameters":{"content_type":"np"}'),
        body(more=',"parameters":{"a":1}'),
        body(more=',"outputs":[{"name":"y"}]'),
        binary(bytes(8)),
        request(body().message, "/v2/models/digits/versions/1/infer"),
    ],
)
def test_what_keeps_requests_apart(other):
    """All but the rows: how they are written, shapes, parameters, outputs asked for, the model."""
    form = OpenInference()
    assert form.take(other).key != form.take(body()).key


@pytest.mark.parametrize("name", ["sequence_id", "shared_memory_region", "triton_x"])
def test_what_is_said_of_a_whole_request(name):
    """Sequences, shared memory and the like are passed on, wherever they are asked for."""
    parameters = f',"parameters":{{"{name}":1}}'
    form = OpenInference()
    assert form.take(body(extra=parameters)) is None
    assert form.take(body(more=parameters)) is None
    assert form.take(body(more=f',"outputs":[{{"name":"y"{parameters}}}]')) is None
    assert form.take(body(more=',"outputs":[{"name":"y"}],"parameters":null')) is not None


@pytest.mark.parametrize(
    "passed",
    [
        Request("GET", "/v2/models/m/infer", body().message),
        request(body().message, "/v2/models/m/generate"),
        request(Message(bytes(8), {JSON_LENGTH: "0"})),
        request(Message(b"{}", {JSON_LENGTH: "3"})),
        request(Message(b"{}", {JSON_LENGTH: "-1"})),
        request(Message(b"{}")),
        request(Message(b'{"inputs":[]}')),
        request(
            Message(
                b'{"inputs":[{"name":"a","shape":[1],"datatype":"FP32","data":[1]},'
                b'{"name":"b","shape":[2],"datatype":"FP32","data":[1,2]}]}'
            )
        ),
        body(shape="[]"),
        body(shape=[0, 2]),
        body(shape=[-1, -2]),
        body(shape=[1] * 16 + [2]),
        body(shape=[1] * 100_000, data="[" * 100_000 + '"a"' + "]" * 100_000),
        body(shape=[1], data=DEEP),
        body(data="[1,2]", extra=f',"parameters":{{"a":{DEEP}}}'),
        body(more=f',"outputs":[{{"name":"y","parameters":{{"a":{DEEP}}}}}]'),
        binary(b"", "FP32", (2**63, 0)),
        body(shape=[1, 3]),
        body(data="[1,2,3]"),
        body(data="[[1],[2]]"),
        body(data="[[1,2,[]]]"),
        body(data='["1,2"]'),
        body(data='[["a"],["b"]]'),
        body(data="[[],[1]]", shape=[2, 1]),
        body(data='[["a","b"],"c"]', shape=[2, 2]),
        body(data='{"0":1}'),
        body(data="1"),
        body(extra=',"unknown":1'),
        body(extra=',"parameters":{"binary_data_size":0}'),
        binary(bytes(8), size=4),
        binary(bytes(8), size=12),
        binary(bytes(8), size=-8),
        binary(bytes(8), size="8"),
        binary(bytes(8), size=8.5),
        binary(bytes(4)),
        binary(bytes(8), "FP128"),
        binary(pack("<I", 9) + b"ab", "BYTES", (1,)),
        binary(pack("<I", 1) + b"ab", "BYTES", (1,)),
        binary(pack("<I", 1) + b"a", "BYTES", (2,)),
    ],
)
def test_what_is_passed_on(passed):
    """Whatever is not understood is for the server to judge."""
    assert OpenInference().take(passed) is None


@pytest.mark.parametrize("sizes", [b"9" * 19, b"9" * 4_000, b"1"])
def test_a_shape_of_many_dimensions_is_not_multiplied(sizes):
    """Their product would take minutes, and nobody else would be served meanwhile."""
    shape = b",".join([sizes] * (2**22 // (len(sizes) + 1)))
    tensor = b'{"name":"x","shape":[%b],"datatype":"FP32","data":[1]}' % shape
    form = OpenInference()
    assert form.take(request(Message(b'{"inputs":[%b]}' % tensor))) is None
    with pytest.raises(Unsplittable, match="the answer is not cut"):
        form.split([form.take(body())] * 2, Message(b'{"outputs":[%b]}' % tensor))


@pytest.mark.parametrize("element", ["1", "NaN"])
def test_more_inputs_than_any_model_has(element):
    """They would take ten times the memory that their bytes are counted for."""
    tensor = f'{{"name":"x","shape":[1],"datatype":"FP32","data":[{element}]}}'
    few, many = (f'{{"inputs":[{",".join([tensor] * count)}]}}' for count in (1024, 1025))
    assert OpenInference().take(request(Message(few.encode()))) is not None
    assert OpenInference().take(request(Message(many.encode()))) is None


@pytest.mark.parametrize(
    ("datatypes", "width"),
    [
        ("BOOL UINT8 INT8", 1),
        ("UINT16 INT16 FP16 BF16", 2),
        ("UINT32 INT32 FP32", 4),
        ("UINT64 INT64 FP64", 8),
    ],
)
def test_elements_in_bytes_are_as_wide_as_the_protocol_says(datatypes, width):
    """One byte more or less is no tensor of that shape."""
    form = OpenInference()
    for datatype in datatypes.split():
        share = form.take(binary(bytes(range(2 * width)), datatype, (2, 1)))
        rows = [b"".join(piece.tensors[0].data) for piece in form.cut(share, 1)]
        assert rows == [bytes(range(width)), bytes(range(width, 2 * width))]
        assert form.take(binary(bytes(2 * width + 1), datatype, (2, 1))) is None


def test_numbers_in_json_are_cut_between_rows():
    """The first, those between, and the last, of several elements each."""
    form = OpenInference()
    share = form.take(body(3, "[1,22,333,4,55,6]"))
    rows = [piece.tensors[0].data for piece in form.cut(share, 1)]
    assert rows == [b"[1,22]", b"[333,4]", b"[55,6]"]
    assert [piece.tensors[0].data for piece in form.cut(share, 2)] == [b"[1,22,333,4]", b"[55,6]"]


def answer(outputs, **beside):
    return Message(json.dumps({"model_name": "m", **beside, "outputs": outputs}).encode())


def output(shape, data, **more):
    return {"name": "y", "shape": shape, "datatype": "FP32", "data": data, **more}


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (answer([output([1], [1])]), "expected 2 as first dimension of 'y', got shape .1."),
        (answer([output([2, 2], [1, 2])]), "expected the elements of shape .2, 2."),
        (answer([output([], [1])]), "rows in each of them"),
        (answer([]), "expected outputs"),
        (Message(b"oops"), "the answer is not cut"),
        (Message(b"{}", {JSON_LENGTH: "9"}), "the answer is not cut"),
    ],
)
def test_answers_that_can_not_be_split(said, message):
    """Nobody is given what may be another's."""
    form = OpenInference()
    with pytest.raises(Unsplittable, match=message):
        form.split([form.take(body()) for _ in range(2)], said)


def test_answers_may_be_flat_or_nested_and_hold_nan():
    """However the requests were written; some servers write null where they have nothing to say."""
    form = OpenInference()
    shares = [form.take(body()), form.take(body(size=2, data="[1,2,3,4]"))]
    outputs = [output([3, 2], [[1, 2], [3, 4], [5, float("nan")]], parameters=None)]
    outputs += [output([3, 2], [1, 2, 3, 4, 5, 6]), output([3], ["a", "b,", "c"])]
    parts = [json.loads(part.body) for part in form.split(shares, answer(outputs, id=None))]
    assert [each["data"] for each in parts[0]["outputs"]] == [[[1, 2]], [1, 2], ["a"]]
    assert str(parts[1]["outputs"][0]["data"]) == "[[3, 4], [5, nan]]"
    assert [each["shape"] for each in parts[1]["outputs"]] == [[2, 2], [2, 2], [2]]
    assert parts[1]["model_name"] == "m"
    assert "id" not in parts[0]


@pytest.mark.parametrize("said", [{}, {"parameters": None}, {"parameters": {}}])
def test_an_output_without_parameters_says_so_as_the_server_does(said):
    """KServe writes null, others nothing: a client that looks for what it knows finds it."""
    form = OpenInference()
    shares = [form.take(body()), form.take(body())]
    parts = form.split(shares, answer([output([2, 2], [1, 2, 3, 4], **said)]))
    assert [json.loads(part.body)["outputs"] for part in parts] == [
        [output([1, 2], data, **said)] for data in ([1, 2], [3, 4])
    ]


def test_who_has_no_id_gets_one_of_his_own():
    """Some servers make one up for the whole batch."""
    form = OpenInference()
    shares = [form.take(body(more=more)) for more in ("", ',"id":"mine"', "")]
    said = answer([output([3], [1, 2, 3])], id="made up")
    ids = [json.loads(part.body)["id"] for part in form.split(shares, said)]
    assert ids == ["made up", "mine", "made up-2"]


def test_pieces_that_do_not_make_a_whole():
    """A row too few, or another output, is an error and no short answer."""
    form = OpenInference()
    share = form.take(body(size=2, data="[1,2,3,4]"))
    with pytest.raises(Unsplittable, match="expected 2 rows of 'y', got 1"):
        form.join(share, [answer([output([1], [1])])])
    with pytest.raises(Unsplittable, match="the same outputs"):
        form.join(share, [answer([output([1], [1])]), answer([output([1, 1], [1])])])
