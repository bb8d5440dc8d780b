"""Files of settings that are written while they are read or watched."""

import asyncio
from pathlib import Path

import pytest

from adaptive_batching.errors import ConfigError
from adaptive_batching.marshal.config.toml_file import TomlFile, read_toml
from tests.virtual_time import run_virtually

HALF = "[routes.a]\nupstream = 'http://a'\n"


class WrittenMeanwhile(type(Path())):
    """A path whose file gets more lines as soon as it was opened."""

    def open(self, *how):
        file = super().open(*how)
        text = file.read()
        file.seek(0)
        Path(self).write_bytes(text + b"partition_by = ['X-Tenant']\n")
        return file


def test_a_file_that_is_written_while_it_is_read(tmp_path):
    """What was read may lack its last lines, so it is not taken, though it is valid."""
    path = tmp_path / "routes.toml"
    path.write_text(HALF)
    assert read_toml(path) == {"routes": {"a": {"upstream": "http://a"}}}
    with pytest.raises(ConfigError, match="written while it was read"):
        read_toml(WrittenMeanwhile(path))


def test_a_file_that_is_written_in_parts(tmp_path):
    """It counts as written anew once two looks have found the same."""
    path = tmp_path / "routes.toml"
    path.write_text(HALF)
    file = TomlFile(path)

    async def story():
        loop = asyncio.get_running_loop()
        waiting = asyncio.ensure_future(file.written_anew())
        for part in range(3):
            await asyncio.sleep(1.0 - part * 0.1)
            path.write_text(HALF + "# more\n" * (part + 1))
        assert not waiting.done()
        await waiting
        assert loop.time() == 4.0
        file.see()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(10.0):
                await file.written_anew()

    run_virtually(story())
