"""A service whose handlers declare what they take and return; worker processes import it."""

from typing import Annotated, Any

import msgspec
import numpy as np
import pydantic

from adaptive_batching import DType, Pipeline, Service, Shape, Stage
from adaptive_batching.workers.placement import Threads


class Image(msgspec.Struct):
    """What is sent."""

    pixels: Annotated[list[float], msgspec.Meta(max_length=9)]
    name: str = ""


class Label(msgspec.Struct):
    """What comes back."""

    digit: int
    name: str


service = Service("typed")


@service.endpoint("/digits", policy="window:1h", max_batch_size=4, codec=["json", "msgpack"])
class Digits:
    """The sum of the pixels, which is no digit at times."""

    def __call__(self, images: list[Image]) -> list[Label | Exception]:
        sums = [sum(image.pixels) for image in images]
        return [
            Label(total if total % 1 else int(total), image.name)  # type: ignore[arg-type]
            for total, image in zip(sums, images, strict=True)
        ]


Small = Annotated[np.ndarray[Any, Any], Shape(2, None), DType("float32")]


@service.endpoint("/arrays", codec=["npy", "json"], workers=Threads(1))
def doubled(arrays: list[Small]) -> list[Small]:
    """On a thread."""
    return [array * 2 for array in arrays]


@service.endpoint("/lengths", codec="raw", result_codec="json")
async def lengths(bodies: list[bytes]) -> list[int]:
    """On the loop."""
    return [len(body) for body in bodies]


@service.endpoint("/upper", codec="raw")
async def upper(texts: list[str]) -> list[str]:
    """Text in, text out."""
    return [text.upper() for text in texts]


class Person(pydantic.BaseModel):
    """Somebody."""

    name: str
    age: int = pydantic.Field(ge=0, le=150)


@service.endpoint("/people")
async def older(people: list[Person]) -> list[Person]:
    """A year later."""
    return [person.model_copy(update={"age": person.age + 1}) for person in people]


class Words:
    """A stage that takes one text."""

    def __call__(self, text: str) -> list[str]:
        return text.split()


class Count:
    """A stage that takes many lists."""

    def __call__(self, lists: list[list[str]]) -> list[int]:
        return list(map(len, lists))


service.add_pipeline("/count", Pipeline([Stage(Words), Stage(Count, max_batch_size=8)]))
