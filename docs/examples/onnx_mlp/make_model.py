"""Writes digits.onnx: a small neural network that reads handwritten digits."""

from pathlib import Path

from skl2onnx import to_onnx
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

images, labels = load_digits(return_X_y=True)
images = (images / 16).astype("float32")
network = MLPClassifier((64,), max_iter=400, random_state=0).fit(images, labels)
model = to_onnx(network, images[:1], options={"zipmap": False})
Path("digits.onnx").write_bytes(model.SerializeToString())
print(f"{network.score(images, labels):.1%} right on what it learned from")
