"""For BentoML: texts in reverse, but `poison` fails."""

import bentoml


@bentoml.service(workers=1)
class Reverse:
    @bentoml.api(route="/reverse")
    def reverse(self, texts: list[str]) -> list[str]:
        if "poison" in texts:
            raise bentoml.exceptions.InvalidArgument("poison is poison")
        return [text[::-1] for text in texts]
