"""Lay out the wheel: `jobs` and `schemas`, folders of the repository, are installed as `slotscope.jobs` and `slotscope.schemas`.

Names as common as `jobs` and `schemas` must not take part in the import path of whoever installs the wheel, nor be replaced by packages of
theirs.  In the repository, and in the zip for spark-submit, both are top-level packages; their imports are rewritten as the wheel is built.
"""

import re
import shutil
import sys
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

NESTED = ("jobs", "schemas")
TOP_LEVEL = ("cluster_core", "slotscope", *NESTED)
_IMPORT = re.compile(rf"^(\s*)from ({'|'.join(NESTED)})(?=[. ])", re.MULTILINE)
_COMMAND = re.compile(r'(?<=")jobs(?=\.\w+:\w+")')
"""A subcommand that is named as text: ``"jobs.key_slots:command"``."""


def nested(text: str) -> str:
    """Return the source *text* with what it imports under the names that are installed."""
    return _COMMAND.sub("slotscope.jobs", _IMPORT.sub(r"\1from slotscope.\2", text))


class BuildNested(build_py):
    """Copy the modules to the build folder with their imports rewritten."""

    def run(self) -> None:
        """Build into an empty folder: an earlier build may have left modules that are gone."""
        if self.editable_mode:
            super().run()
            return
        shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()
        for path in Path(self.build_lib).rglob("*.py*"):
            if path.suffix in (".py", ".pyi"):
                path.write_text(nested(path.read_text("utf-8")), "utf-8")


packages = find_packages(include=[pattern for name in TOP_LEVEL for pattern in (name, f"{name}.*")])
if "editable_wheel" in sys.argv:
    setup(packages=packages)
else:
    setup(
        packages=[f"slotscope.{name}" if name.split(".")[0] in NESTED else name for name in packages],
        package_dir={f"slotscope.{name}": name for name in NESTED},
        cmdclass={"build_py": BuildNested},
    )
