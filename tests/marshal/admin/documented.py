"""A service with endpoints of every kind, none of which fails; worker processes import it."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import numpy as np
import pydantic
from numpy.typing import NDArray

from adaptive_batching import DType, Padded, Pipeline, Processes, Service, Shape, Stage
from adaptive_batching.workers.placement import Threads

Number = Annotated[float, msgspec.Meta(ge=-1e6, le=1e6)]


class Image(msgspec.Struct):
    """An image, as a row of grey values."""

    pixels: Annotated[list[Number], msgspec.Meta(max_length=64)]
    name: str = ""
    kind: Literal["photo", "drawing"] = "photo"


class Label(msgspec.Struct):
    """What is on an image."""

    bright: bool
    name: str


class Movie(TypedDict):
    """A film."""

    title: str
    year: Annotated[int, msgspec.Meta(ge=1888, le=2100)]


@dataclass
class Point:
    """A place."""

    x: Number
    y: Number


class Person(pydantic.BaseModel):
    """Somebody; unlike pydantic's default, no conversions: then the schema says it all."""

    model_config = pydantic.ConfigDict(strict=True)

    name: str
    age: int = pydantic.Field(ge=0, le=150)


service = Service("documented")


@service.endpoint("/images", workers=Processes(1), codec=["json", "msgpack"])
class Images:
    """Whether images are bright.

    The mean of the pixels decides; an image without any is dark.
    """

    examples = (Image([0.5, 1.0], "sun"), Image([]))

    def __call__(self, images: list[Image]) -> list[Label]:
        """Look at them."""
        return [Label(sum(image.pixels) > 0.5 * len(image.pixels), image.name) for image in images]


@service.endpoint("/movies", workers=Threads(1), examples=[Movie(title="M", year=1931)])
def remade(movies: list[Movie]) -> list[list[Movie]]:
    """A film and its remake."""
    return [[movie, Movie(title=movie["title"], year=2100)] for movie in movies]


@service.endpoint("/distances")
async def distances(points: list[Point]) -> list[float]:
    """How far places are from the middle."""
    return [abs(complex(point.x, point.y)) for point in points]


@service.endpoint("/people")
async def anonymous(people: list[Person]) -> list[Person]:
    """The same people without names."""
    return [person.model_copy(update={"name": "?"}) for person in people]


Pair = Annotated[np.ndarray[Any, Any], Shape(None, 2), DType("uint8")]


@service.endpoint("/pairs", codec=["json", "npy"], examples=[np.array([[1, 2]], "uint8")])
async def swapped(pairs: list[Pair]) -> list[Pair]:
    """The columns the other way round."""
    return [pair[:, ::-1] for pair in pairs]


class Inputs(TypedDict):
    """A signal of any length, and its gain."""

    signal: Annotated[NDArray[np.float64], Shape(None), Padded()]
    gain: Annotated[NDArray[np.float64], Shape()]


@service.endpoint("/means")
async def means(x: Inputs) -> NDArray[np.float64]:
    """What signals add up to in a batch of arrays."""
    return np.tanh(x["signal"]).sum(axis=1) * np.tanh(x["gain"])


@service.endpoint("/sizes", codec="raw", result_codec="json")
async def sizes(files: list[bytes]) -> list[int]:
    """How long files are."""
    return [len(file) for file in files]


@service.endpoint("/upper", codec="raw", examples=["abc"])
async def upper(texts: list[str]) -> list[str]:
    """Text in capitals."""
    return [text.upper() for text in texts]


@service.endpoint("/echo", codec=["json", "msgpack"], result_codec="json")
async def echo(items: list[Any]) -> list[Any]:
    """Whether there was anything at all."""
    return [item is not None for item in items]


async def words(text: str) -> list[str]:
    """A stage that takes one text."""
    return text.split()


async def count(lists: list[list[str]]) -> list[int]:
    """A stage that takes many lists."""
    return list(map(len, lists))


service.add_pipeline("/count", Pipeline([Stage(words), Stage(count, max_batch_size=8)]))
