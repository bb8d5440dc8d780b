"""A file of routes that may be written anew while they are at work."""

import os

from adaptive_batching.marshal.config.route_tables import read_routes
from adaptive_batching.marshal.config.toml_file import TomlFile
from adaptive_batching.marshal.sidecar.route import Route


class RoutesFile(TomlFile):
    """Reads the routes again and again; see `route_tables`."""

    def read(self) -> list[Route]:
        """What it says now, with the variables of the environment.

        Raises:
            ConfigError: It can't be read, or something in it is not as it should be.
        """
        self.see()
        return read_routes(self.path, os.environ)
