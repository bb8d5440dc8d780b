"""A handler for which a batch gains nothing: each item costs as much as alone."""

import hashlib

from adaptive_batching import Service

service = Service()


@service.endpoint("/stretch", max_latency=1.0, max_batch_size=64, examples=["warm", "up"])
class Stretch:
    """Makes a key of a password, slowly on purpose."""

    def __call__(self, passwords: list[str]) -> list[str]:
        return [
            hashlib.pbkdf2_hmac("sha256", each.encode(), b"salt", 10_000).hex()
            for each in passwords
        ]
