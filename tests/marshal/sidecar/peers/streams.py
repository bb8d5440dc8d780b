"""Byte streams that hold some requests, or none, depending on who reads them."""

HOST = b"Host: h\r\n"
CLOSE = b"Connection: close\r\n\r\n"
INNER = b"GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n"


def post(*headers, body=b""):
    """A request with these headers after its host."""
    lines = b"".join(header + b"\r\n" for header in headers)
    return b"POST /outer HTTP/1.1\r\n" + HOST + lines + b"\r\n" + body


LENGTH = b"Content-Length: %d" % len(INNER)
CHUNKED = b"Transfer-Encoding: chunked"
CHUNKS = b"%x\r\n%b\r\n0\r\n\r\n" % (len(INNER), INNER)

WELL_FORMED = {
    "one": post(b"Content-Length: 2", b"Connection: close", body=b"ab"),
    "a request in a body": post(LENGTH, b"Connection: close", body=INNER),
    "a request in a chunk": post(CHUNKED, b"Connection: close", body=CHUNKS),
    "two after another": post(LENGTH, body=INNER) + b"GET /second HTTP/1.1\r\n" + HOST + CLOSE,
    "chunks, then another": post(CHUNKED, body=CHUNKS) + b"GET /second HTTP/1.1\r\n" + HOST + CLOSE,
    "three after another, in one write": post(LENGTH, body=INNER)
    + b"GET /between HTTP/1.1\r\n"
    + HOST
    + b"\r\n"
    + b"GET /second HTTP/1.1\r\n"
    + HOST
    + CLOSE,
    "a chunk extension": post(CHUNKED, b"Connection: close", body=b"2;a=b\r\nab\r\n0\r\n\r\n"),
    "trailers": post(CHUNKED, b"Connection: close", body=b"2\r\nab\r\n0\r\nA: b\r\n\r\n"),
}
"""Everybody finds the same requests in them."""

MALFORMED = {
    "length and chunks": post(LENGTH, CHUNKED, body=b"0\r\n\r\n" + INNER),
    "two lengths": post(b"Content-Length: 0", LENGTH, body=INNER),
    "two lengths that are equal": post(LENGTH, LENGTH, body=INNER),
    "a list of lengths": post(b"Content-Length: 0, %d" % len(INNER), body=INNER),
    "a length with a sign": post(b"Content-Length: +0", body=INNER),
    "an unknown coding": post(b"Transfer-Encoding: xchunked", body=CHUNKS),
    "a chunked that is not last": post(b"Transfer-Encoding: chunked, identity", body=CHUNKS),
    "a coding before chunked": post(b"Transfer-Encoding: gzip, chunked", body=CHUNKS),
    "a coding before chunked, without a space": post(
        b"Transfer-Encoding: deflate,chunked", body=CHUNKS
    ),
    "no coding before chunked": post(b"Transfer-Encoding: identity, chunked", body=CHUNKS),
    "an empty coding before chunked": post(b"Transfer-Encoding: , chunked", body=CHUNKS),
    "a coding twice": post(CHUNKED, b"Transfer-Encoding: identity", body=CHUNKS),
    "a vertical tab": post(b"Transfer-Encoding: \x0bchunked", body=CHUNKS),
    "a space before the colon": post(b"Transfer-Encoding : chunked", body=CHUNKS),
    "a folded header": post(b"A: b", b" Transfer-Encoding: chunked", body=b"0\r\n\r\n" + INNER),
    "a bare CR": post(b"A: b\rTransfer-Encoding: chunked", body=b"0\r\n\r\n" + INNER),
    "bare LF": post(LENGTH, body=INNER).replace(b"\r\n", b"\n"),
    "a bare LF before a header": post(b"A: b\nTransfer-Encoding: chunked", LENGTH, body=INNER),
    "a bare LF after a chunk's size": post(CHUNKED, body=b"2\nab\r\n0\r\n\r\n" + INNER),
    "a bare LF in a chunk's extension": post(CHUNKED, body=b"2;\nab\r\n0\r\n\r\n" + INNER),
    "a chunk that is longer than it says": post(CHUNKED, body=b"2\r\nabc\r\n0\r\n\r\n" + INNER),
    "a NUL": post(b"A: \x00", body=INNER),
    "a size too large": post(CHUNKED, body=b"f" * 17 + b"\r\n" + INNER),
    "a size in hexadecimal notation": post(CHUNKED, body=b"0x2\r\nab\r\n0\r\n\r\n" + INNER),
    "no host": b"POST /outer HTTP/1.1\r\nContent-Length: 0\r\n\r\n" + INNER,
    "two hosts": post(b"Host: i", body=INNER),
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + INNER,
    "chunks in HTTP/1.0": b"POST /outer HTTP/1.0\r\n" + HOST + CHUNKED + b"\r\n\r\n" + CHUNKS,
}
"""What attackers send: one reads two requests where another reads one."""


def requests_of(stream):
    """How many a well-formed stream holds."""
    return 1 + (b"/between" in stream) + (b"/second" in stream)
