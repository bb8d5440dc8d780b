"""Handlers of contrib, as worker processes import them."""

from adaptive_batching.contrib.sentence_transformers import PairScorer, SentenceEncoder
from adaptive_batching.contrib.transformers import TransformersPipeline


class Encoder(SentenceEncoder):
    def __init__(self):
        super().__init__("tiny", load={"device": "cpu"}, encode={"normalize_embeddings": True})


class Scorer(PairScorer):
    def __init__(self):
        super().__init__("tiny", predict={"activation_fn": None})


class Classifier(TransformersPipeline):
    def __init__(self):
        super().__init__("text-classification", load={"model": "tiny"}, call={"top_k": 1})
