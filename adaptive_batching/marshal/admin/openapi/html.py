"""The OpenAPI document as a page to be read, and to send an item from; it needs no network."""

import base64
import json
import shlex
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Any

from adaptive_batching.marshal.admin.openapi.examples import make_example

Part = dict[str, Any]

_LONG = 120  # characters of an item, from where it has no spaces and a shell takes it from a file

_CSS = (files(__package__) / "page.css").read_text()
_SCRIPT = (files(__package__) / "page.js").read_text()


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(sha256(text.encode()).digest()).decode()}'"


SECURITY_POLICY = (
    f"default-src 'none'; style-src {_hash(_CSS)}; script-src {_hash(_SCRIPT)}; connect-src 'self';"
    " img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def render(document: Part) -> str:
    """The page of an OpenAPI document of ours."""
    title = escape(document["info"]["title"])
    posts = {path: each["post"] for path, each in document["paths"].items() if "post" in each}
    gets = {path: each["get"] for path, each in document["paths"].items() if "get" in each}
    links = "".join(f'<li><a href="#{_anchor(path)}">{escape(path)}</a></li>' for path in posts)
    sections = "".join(_endpoint(path, post, document) for path, post in posts.items())
    types = document["components"]["schemas"]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<title>{title}</title><link rel="icon" href="data:,"><style>{_CSS}</style></head>'
        f"<body><header><h1>{title}</h1>"
        "<p>Each request carries one item and gets its own result."
        ' The same for programs: <a href="openapi.json">/openapi.json</a></p>'
        f'<nav aria-label="Endpoints"><ul>{links}</ul></nav></header>'
        f"<main>{sections}{_types(types)}{_pages(gets)}</main>"
        f"<script>{_SCRIPT}</script></body></html>"
    )


def _endpoint(path: str, post: Part, document: Part) -> str:
    body, answer = post["requestBody"]["content"], post["responses"]["200"]["content"]
    trial = _trial(path, body, document["components"]["schemas"])
    details = f"<p>{escape(post['description'])}</p>" if "description" in post else ""
    return (
        f'<section id="{_anchor(path)}"><h2><span>POST</span> {escape(path)}</h2>'
        f"<p>{escape(post['summary'])}</p>{details}"
        f"<h3>Item</h3>{_content(body)}<h3>Result</h3>{_content(answer)}"
        f"{trial}{_statuses(post['responses'], document)}</section>"
    )


def _content(content: Part) -> str:
    """The media types that share a schema, then the schema."""
    names: dict[str, list[str]] = {}
    for media_type, each in content.items():
        names.setdefault(_schema(each["schema"]), []).append(media_type)
    return "".join(
        f"<p>{', '.join(map(_code, media_types))}</p><pre>{schema}</pre>"
        for schema, media_types in names.items()
    )


def _schema(schema: Part) -> str:
    if not schema:
        return "anything"
    if set(schema) == {"$ref"}:
        return _linked(f'"{schema["$ref"]}"').strip('"')
    return _linked(json.dumps(schema, indent=2, ensure_ascii=False))


def _linked(schema: str) -> str:
    """With references to the types further down."""
    text = escape(schema, quote=False)
    pieces = text.split('"#/components/schemas/')
    linked = [pieces[0]]
    for piece in pieces[1:]:
        name, _, rest = piece.partition('"')
        linked.append(f'"<a href="#type-{escape(name)}">{name}</a>"{rest}')
    return "".join(linked)


def _trial(path: str, content: Part, types: Part) -> str:
    """A form, where an item can be written by hand, and the same for a shell."""
    written = [each for each in content if each == "application/json" or each.startswith("text/")]
    if not written:
        return ""
    media_type = written[0]
    examples = content[media_type].get("examples")
    if examples:
        example = next(iter(examples.values()))["value"]
    else:
        example = make_example(content[media_type]["schema"], types)
    text = str(example)
    if media_type == "application/json":
        separators = None if len(str(example)) < _LONG else (",", ":")
        text = json.dumps(example, ensure_ascii=False, separators=separators)
    data = shlex.quote(text) if len(text) < _LONG else "@item.json"
    command = f"curl -H 'Content-Type: {media_type}' -d {data} $URL{path}"
    return (
        f'<form data-path="{escape(path)}" data-type="{media_type}"><label>Try an item'
        f'<textarea rows="4" spellcheck="false">{escape(text)}</textarea></label>'
        '<button>Send</button><output aria-live="polite"></output></form>'
        f"<pre>{escape(command)}</pre>"
    )


def _statuses(responses: Part, document: Part) -> str:
    rows = []
    for status in responses:
        if status == "200":
            continue
        meant = document["components"]["responses"][status]
        schema = meant["content"]["application/json"]["schema"]
        codes = ", ".join(map(_code, schema["properties"]["error"]["enum"]))
        rows.append(f"<tr><td>{status}<td>{codes}<td>{escape(meant['description'])}</tr>")
    table = f"<table><tr><th>Status<th>error<th>Meaning</tr>{''.join(rows)}</table>"
    return f"<details><summary>When there is no result</summary>{table}</details>"


def _types(schemas: Part) -> str:
    shown = "".join(
        f'<h3 id="type-{escape(name)}">{escape(name)}</h3><pre>{_schema(schema)}</pre>'
        for name, schema in schemas.items()
    )
    return f"<section><h2>Types</h2>{shown}</section>" if shown else ""


def _pages(gets: Part) -> str:
    rows = "".join(
        f'<tr><td>GET <a href=".{path}">{path}</a><td>{escape(each["summary"])}</tr>'
        for path, each in gets.items()
    )
    return f"<section><h2>The service itself</h2><table>{rows}</table></section>"


def _code(text: str) -> str:
    return f"<code>{escape(text)}</code>"


def _anchor(path: str) -> str:
    return escape(f"post{path.replace('/', '-')}")
