"""For mosec: handwritten digits, several in a request, but an image that is too small fails."""

import numpy as np
from mosec import Server, ValidationError, Worker
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression


class Digits(Worker):
    def __init__(self):
        super().__init__()
        images, digits = load_digits(return_X_y=True)
        self.model = LogisticRegression(max_iter=3000).fit(images / 16, digits)

    def forward(self, data):
        images = data["images"]
        if not all(len(image) == 64 for image in images):
            raise ValidationError("expected 64 pixels")
        probabilities = self.model.predict_proba(np.array(images) / 16)
        return {"digits": [{"digit": int(each.argmax())} for each in probabilities]}


if __name__ == "__main__":
    server = Server()
    server.append_worker(Digits, num=1)
    server.run()
