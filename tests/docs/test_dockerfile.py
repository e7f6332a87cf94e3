"""The Dockerfile is sound, and copies the sources of the package."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.builders.wheel import SOURCES

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "Dockerfile"


def test_the_dockerfile_passes_the_linter():
    hadolint = Path(sys.executable).parent / "hadolint"
    done = subprocess.run([str(hadolint), str(DOCKERFILE)], capture_output=True, text=True)

    assert (done.returncode, done.stdout) == (0, "")


def test_the_image_is_built_from_the_sources_of_the_wheel():
    """The build context has only the copied files."""
    copied = set(" ".join(re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE.read_text(), re.MULTILINE)).split())
    seen = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}

    assert set(SOURCES) <= copied
    assert copied == seen
