"""For LitServe's OpenAI embeddings: letters of a text, but `poison` fails."""

import sys

import litserve
from fastapi import HTTPException


class Letters(litserve.LitAPI):
    def setup(self, device):
        self.letters = "aeiou"

    def predict(self, inputs):
        texts = inputs if isinstance(inputs, list) else [inputs]
        if "poison" in texts:
            raise HTTPException(422, "poison is poison")
        embeddings = [[text.count(letter) / len(text) for letter in self.letters] for text in texts]
        used = sum(len(text) + 2 for text in texts)  # as long as in JSON: parts of a sum are exact
        return {"embeddings": embeddings, "prompt_tokens": used, "total_tokens": used}

    def encode_response(self, output, context_kwargs=None):
        return output


if __name__ == "__main__":
    api = Letters(spec=litserve.OpenAIEmbeddingSpec())
    server = litserve.LitServer(api, accelerator="cpu", workers_per_device=1)
    server.run(host="127.0.0.1", port=int(sys.argv[1]), generate_client_file=False)
