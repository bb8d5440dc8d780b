"""What is served in processes of their own."""

from adaptive_batching import Service

service = Service()


@service.endpoint("/echo", max_batch_size=4)
async def echo(items: list[object]) -> list[object]:
    if "raise" in items:
        raise ValueError("secret")
    return items
