"""TensorFlow Serving's REST API without TensorFlow, which no registry has.

After its `http_rest_api_util.cc`, `http_rest_api_handler.cc` and `json_tensor.cc`: paths, statuses,
bodies to the last space, and errors. `python -m tests.real_servers.tensorflow_serving PORT`.
"""

import re
import sys

from aiohttp import web

from tests.real_servers.tensorflow_serving.examples import (
    classified,
    computed,
    read_examples,
    regressed,
)
from tests.real_servers.tensorflow_serving.models import MODELS
from tests.real_servers.tensorflow_serving.pretty import pretty
from tests.real_servers.tensorflow_serving.tables import in_columns, in_rows
from tests.real_servers.tensorflow_serving.tensors import (
    StatusError,
    from_inputs,
    from_instances,
    invalid,
    parsed,
)

_WHICH = r"(?:(?:/versions/(\d+))|(?:/labels/([^/:]+)))?"
_POSTED = re.compile(rf"(?i)/v1/models/([^/:]+){_WHICH}:(classify|regress|predict)")
_GOT = re.compile(rf"(?i)/v1/models(?:/([^/:]+))?{_WHICH}(?:/(metadata))?")


async def handle(request):
    path = request.path
    if not path.lower().startswith("/v1/"):
        return web.Response(status=404)
    try:
        status, text = 200, answer(request.method, path, await request.read())
    except StatusError as error:
        status, text = error.status, pretty({"error": str(error)})
    return web.Response(status=status, body=text.encode(), content_type="application/json")


def answer(method, path, body):
    if method == "POST" and (found := _POSTED.fullmatch(path)):
        name, version, label, verb = found.groups()
        if verb.lower() == "predict":
            return _predict(name, version, label, parsed(body))
        return _of_examples(name, version, label, verb.lower(), parsed(body))
    if method == "GET" and (found := _GOT.fullmatch(path)):
        name, version, label, metadata = found.groups()
        if not name:
            raise invalid("Missing model name in request.")
        return (_metadata if metadata else _status)(name, version, label)
    raise invalid(f"Malformed request: {method} {path}")


def _of_examples(name, version, label, verb, document):
    examples = read_examples(document)
    _, model = _loaded(name, version, label)
    signature = document.get("signature_name") or "serving_default"
    if model.examples.get(signature) != verb:
        raise invalid(f'Expected {verb} signature, got: "{signature}"')
    return (classified if verb == "classify" else regressed)(computed(examples))


def _predict(name, version, label, document):
    number, model = _loaded(name, version, label)
    signature = document.get("signature_name") or "serving_default"
    if signature != "serving_default":
        raise invalid(f'Serving signature name: "{signature}" not found in signature def')
    run = model.versions[number]
    if "instances" in document:
        return in_rows(run(from_instances(_instances(document), model.types)))
    if "inputs" in document:
        return in_columns(run(from_inputs(document["inputs"], model.types)))
    raise invalid("Missing 'inputs' or 'instances' key")


def _instances(document):
    told = f"JSON Value: {pretty(document)}"
    if "inputs" in document:
        raise invalid(
            f"{told} Not formatted correctly expecting only one of 'inputs' or 'instances' "
            "keys to exist "
        )
    instances = document["instances"]
    if not isinstance(instances, list):
        raise invalid(f"{told} Excepting 'instances' to be an list/array")
    if not instances:
        raise invalid(f"{told} No values in 'instances' array")
    return instances


def _loaded(name, version, label):
    model = MODELS.get(name)
    if model is None or (version and int(version) not in model.versions):
        which = f"Specific({name}, {version})" if version else f"Latest({name})"
        raise StatusError(404, f"Servable not found for request: {which}")
    if label and label not in model.labels:
        raise invalid(f"Unrecognized servable version label: {label}")
    number = int(version) if version else model.labels[label] if label else min(model.versions)
    return number, model


def _status(name, version, label):
    if name not in MODELS:
        raise StatusError(404, f"Could not find any versions of model {name}")
    model = MODELS[name]
    one = version or label
    numbers = [_loaded(name, version, label)[0]] if one else sorted(model.versions, reverse=True)
    well = {"error_code": "OK", "error_message": ""}
    states = [{"version": str(each), "state": "AVAILABLE", "status": well} for each in numbers]
    return pretty({"model_version_status": states}) + "\n"


def _metadata(name, version, label):
    number, model = _loaded(name, version, label)
    spec = {"name": name, "signature_name": "", "version": str(number)}
    tensors = {
        side: {each: {"dtype": f"DT_{dtype.upper()}", "name": f"{each}:0"} for each, dtype in types}
        for side, types in (("inputs", model.types.items()), ("outputs", model.outputs.items()))
    }
    method = {"method_name": "tensorflow/serving/predict"}
    signatures = {"signature_def": {"serving_default": {**tensors, **method}}}
    told = f'"metadata": {{"signature_def": {pretty(signatures)}}}'
    return f'{{\n"model_spec":{pretty(spec)},\n{told}\n}}\n'


if __name__ == "__main__":
    application = web.Application(client_max_size=2**26)
    application.router.add_route("*", "/{tail:.*}", handle)
    web.run_app(application, host="127.0.0.1", port=int(sys.argv[1]), print=None)
