"""Stands in for the package whose weights can't be had: what its two models take and return."""

import numpy as np


class SentenceTransformer:
    def __init__(self, model_name_or_path=None, *, device=None):
        assert (model_name_or_path, device) == ("tiny", "cpu")

    def encode(
        self, sentences, *, batch_size=32, show_progress_bar=None, normalize_embeddings=False
    ):
        """A row for each text: its length, the size of its pass, and whether it is normalized."""
        assert show_progress_bar is False
        size = min(batch_size, len(sentences))
        rows = [[len(each), size, normalize_embeddings] for each in sentences]
        return np.asarray(rows, dtype=np.float32)


class CrossEncoder:
    def __init__(self, model_name_or_path, *, device=None):
        assert model_name_or_path == "tiny"

    def predict(self, sentences, *, batch_size=32, show_progress_bar=None, activation_fn=0):
        """A score for each pair."""
        assert (batch_size, show_progress_bar, activation_fn) == (len(sentences), False, None)
        return np.asarray([len(a) - len(b) for a, b in sentences], dtype=np.float32)
