"""A service as a part of another program: an ASGI application, or one of aiohttp.

Another server speaks HTTP there; it imports the router, and nothing that listens.
"""
