"""The OpenAPI 3.1 document of a service, made of what its endpoints declare."""

import inspect
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from adaptive_batching.marshal.admin.openapi.responses import (
    HEADERS,
    NOT_READY,
    OF_ENDPOINTS,
    Part,
    error_response,
)
from adaptive_batching.marshal.service.endpoints import Endpoint, PipelineEndpoint
from adaptive_batching.payloads.annotations import UNDECLARED
from adaptive_batching.payloads.codecs import Codec
from adaptive_batching.payloads.forms import form_schema
from adaptive_batching.payloads.payload import Payload
from adaptive_batching.payloads.schemas import Schema, make_schemas

Described = Endpoint | PipelineEndpoint

_BYTES = {"type": "string", "format": "binary"}
_REQUEST_HEADERS = {
    "X-Request-Id": "What the answer and the log call it: letters, digits and hyphens, at most 64.",
    "X-Request-Timeout-Ms": "Milliseconds that the client waits; what can't be done is refused.",
}


def describe(name: str, endpoints: Sequence[Described], pages: Collection[str]) -> Part:
    """Make the document.

    Args:
        name: Of the service.
        endpoints: What it serves.
        pages: What can be looked at beside them, by path.

    Raises:
        TypeError: Two types have one name.
    """
    kinds = [
        kind for each in endpoints for kind in (each.contract.item.kind, each.contract.result.kind)
    ]
    schemas, components = make_schemas(kinds)
    paths: Part = {
        each.path: {"post": _operation(each, item, result)}
        for each, item, result in zip(endpoints, schemas[::2], schemas[1::2], strict=True)
    }
    paths |= {path: {"get": page} for path, page in _PAGES.items() if path in pages}
    responses = {str(each.status): error_response(each) for each in OF_ENDPOINTS}
    return {
        "openapi": "3.1.0",
        "info": {"title": name, "version": "1"},
        "servers": [{"url": "./"}],  # beside the document, wherever the service is mounted
        "paths": paths,
        "components": {
            "schemas": components,
            "headers": HEADERS,
            "responses": responses,
            "parameters": {
                name: _header_parameter(name, means) for name, means in _REQUEST_HEADERS.items()
            },
        },
    }


def _operation(endpoint: Described, item: Schema, result: Schema) -> Part:
    contract = endpoint.contract
    examples = contract.shown(endpoint.examples)
    is_validated = contract.item.kind is not UNDECLARED
    if endpoint.most is not None:
        is_validated = True  # that it is a list
        item = {"type": "array", "items": item, "maxItems": endpoint.most}
        result = {"type": "array", "items": result}
        examples = [examples] if examples else []
    summary, _, more = _documentation(endpoint).partition("\n\n")
    answered = {
        "description": "The item's own result.",
        "headers": {"X-Request-Id": {"$ref": "#/components/headers/X-Request-Id"}},
        "content": _content(contract.result, result, ()),
    }
    refused = {
        str(each.status): {"$ref": f"#/components/responses/{each.status}"}
        for each in OF_ENDPOINTS
        if each.status != 422 or is_validated
    }
    return {
        "operationId": endpoint.path.removeprefix("/") or "/",
        "summary": " ".join(summary.split()),
        **({"description": more} if more else {}),
        "parameters": [{"$ref": f"#/components/parameters/{name}"} for name in _REQUEST_HEADERS],
        "requestBody": {
            "required": Codec.RAW not in contract.item.codecs,  # no bytes are bytes, too
            "content": _content(contract.item, item, examples),
        },
        "responses": {"200": answered, **refused},
    }


def _content(payload: Payload, schema: Schema, examples: Sequence[Any]) -> Part:
    content: Part = {}
    for codec, media_type in zip(payload.codecs, payload.media_types(), strict=True):
        if codec is Codec.NPY or (codec is Codec.RAW and payload.kind is not str):
            content[media_type] = {"schema": {**_BYTES, **_titled(schema)}}
            continue
        if codec is Codec.MULTIPART:
            content[media_type] = {"schema": form_schema(payload.kind)}
            continue
        content[media_type] = {"schema": schema}
        if examples:
            shown = {f"example-{n}": {"value": each} for n, each in enumerate(examples, 1)}
            content[media_type]["examples"] = shown
    return content


def _titled(schema: Schema) -> Schema:
    return {"title": schema["title"]} if "title" in schema else {}


def _documentation(endpoint: Described) -> str:
    if isinstance(endpoint, PipelineEndpoint):
        return " → ".join(map(str, endpoint.pipeline.stages))
    name = str(getattr(endpoint.handler, "__qualname__", endpoint.path))
    return inspect.cleandoc(endpoint.handler.__doc__ or name)


def _header_parameter(name: str, means: str) -> Part:
    return {"name": name, "in": "header", "description": means, "schema": {"type": "string"}}


def _page(summary: str, content: Mapping[str, Any], **more: Any) -> Part:
    answered = {"description": "What was asked for.", "content": content}
    return {"summary": summary, "responses": {"200": answered, **more.pop("responses", {})}, **more}


def _status(*said: str) -> Part:
    properties = {"status": {"type": "string", "enum": list(said)}, "endpoints": {"type": "object"}}
    return {
        "application/json": {
            "schema": {"type": "object", "properties": properties, "required": ["status"]}
        }
    }


_NOT_READY = error_response(NOT_READY)
_NOT_READY["headers"] = {}
_NOT_READY["content"]["application/json"]["schema"]["required"] = ["error"]

_PAGES: dict[str, Part] = {
    "/healthz": _page("Whether the process answers", _status("ok")),
    "/readyz": _page(
        "Whether requests should be sent here",
        _status("ready"),
        parameters=[
            {
                "name": "deep",
                "in": "query",
                "description": "1 to send every endpoint its first example",
                "schema": {"type": "string"},
            }
        ],
        responses={"503": _NOT_READY},
    ),
    "/metrics": _page("Metrics for Prometheus", {"text/plain": {"schema": {"type": "string"}}}),
    "/openapi.json": _page("This document", {"application/json": {"schema": {"type": "object"}}}),
    "/docs": _page("The description, to be read", {"text/html": {"schema": {"type": "string"}}}),
}
