"""Our own HTTP server: what listens, connections, and requests that are passed on to aiohttp.

It imports requests, responses, limits and the protocol of a handler, and no router.
"""
