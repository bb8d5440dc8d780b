"""The steps of a Dockerfile, carried out with nothing but namespaces and overlays.

The base image is this machine's own file system: what a step writes lies in a folder above it. What
is run of the image runs below a root that is read-only. It takes root's rights: others can't lay an
overlay above files that they did not mount.
"""

import json
import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_MOUNTED = """
set -e
mount -t overlay overlay -o "$OVERLAY" "$ROOT"
for each in dev proc sys; do mount --rbind /$each "$ROOT/$each"; done
[ -z "$APP" ] || mount --bind "$APP" "$ROOT/app"
[ -z "$APP" ] || mount -t tmpfs tmpfs "$ROOT/tmp"
exec chroot $WHO "$ROOT" env -i --chdir="$FOLDER" "$@"
"""


def instructions(text: str) -> list[tuple[str, str]]:
    """Each instruction with what follows it."""
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    joined = lines.replace("\\\n", " ")
    return [
        (word, rest) for word, _, rest in (s.partition(" ") for s in joined.splitlines()) if word
    ]


class Stage:
    """One stage, or the image that the last one is.

    Attributes:
        files: What it has beside the base image.
    """

    def __init__(self, folder: Path) -> None:
        self.files = folder / "files"
        self.environment = {"PATH": PATH, "HOME": "/tmp"}
        self.workdir, self.user = "/", ""
        self.said: dict[str, Any] = {}
        self._folder = folder
        for each in (self.files, folder / "work", folder / "root"):
            each.mkdir(parents=True)

    def command(self, *command: str, app: Path | None = None) -> tuple[list[str], dict[str, str]]:
        """The arguments and variables of a process that runs a command in it.

        Args:
            command: The command.
            app: Files to have below /app; the root is read-only then, but for /tmp.
        """
        overlay = f"lowerdir=/,upperdir={self.files},workdir={self._folder / 'work'}"
        overlay += "" if app is None else ",ro"
        mounts = {
            "PATH": PATH,
            "OVERLAY": overlay,
            "ROOT": str(self._folder / "root"),
            "APP": str(app or ""),
            "WHO": self.user and f"--userspec={self.user}",
            "FOLDER": self.workdir,
        }
        variables = [f"{name}={value}" for name, value in self.environment.items()]
        return ["unshare", "--mount", "sh", "-c", _MOUNTED, "sh", *variables, *command], mounts

    def run(self, *command: str, app: Path | None = None) -> subprocess.CompletedProcess[str]:
        """What a command says that runs in it."""
        arguments, mounts = self.command(*command, app=app)
        return subprocess.run(arguments, env=mounts, capture_output=True, text=True, check=False)


def built(dockerfile: Path, context: Path, folder: Path) -> Stage:
    """The image that a Dockerfile makes; what fails is an error with what the step said."""
    stages: dict[str, Stage] = {}
    stage = Stage(folder / "none")
    for word, rest in instructions(dockerfile.read_text()):
        match word:
            case "FROM":
                name = rest.partition(" AS ")[2] or "last"
                stage = stages[name] = Stage(folder / name)
            case "ENV":
                for name, _, value in (each.partition("=") for each in shlex.split(rest)):
                    told = re.sub(r"\$PATH", stage.environment["PATH"], value)
                    stage.environment[name] = told
            case "ARG" if rest in os.environ:
                stage.environment[rest] = os.environ[rest]
            case "WORKDIR":
                stage.workdir = rest
                (stage.files / rest[1:]).mkdir(parents=True, exist_ok=True)
            case "USER":
                stage.user = rest
            case "COPY":
                _copy(stage, stages, context, shlex.split(rest))
            case "RUN":
                done = stage.run("sh", "-c", rest)
                assert done.returncode == 0, f"{rest}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
            case "ENTRYPOINT" | "CMD":
                stage.said[word] = json.loads(rest)
            case "HEALTHCHECK":
                stage.said[word] = json.loads(rest.partition(" CMD ")[2])
    return stage


def _copy(stage: Stage, stages: dict[str, Stage], context: Path, words: list[str]) -> None:
    above = context
    if words[0].startswith("--from="):
        above = stages[words.pop(0).removeprefix("--from=")].files
    *sources, target = words
    to = stage.files / os.path.join(stage.workdir, target)[1:]
    to.parent.mkdir(parents=True, exist_ok=True)
    for source in sources:
        subprocess.run(["cp", "-r", above / source.lstrip("/"), to], check=True)
