"""The frame of every page: it is found wherever the package lies, and templates cannot forget a name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from jinja2 import UndefinedError

import slotscope.reports
from slotscope.reports.page import PAGE_SCRIPT, STYLE_SHEET, environment, read_template
from slotscope.runtime.spark import code_zip

PROJECT = Path(slotscope.reports.__file__).parents[2]
IN_ZIP = """
from slotscope.reports import page
assert ".zip" in page.__file__, page.__file__
print(len(page.render_page("base.html", {})))
"""


@pytest.mark.long
def test_templates_are_read_from_a_zip(tmp_path: Path) -> None:
    """Executors and spark-submit import the code from one file."""
    archive = code_zip.build(tmp_path / "code.zip")
    done = subprocess.run(
        [sys.executable, "-c", IN_ZIP],
        cwd=tmp_path,
        env={"PYTHONPATH": str(archive)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) > 10_000


def test_a_name_that_a_template_misses_is_an_error() -> None:
    """A report never shows an empty place where a figure should be."""
    with pytest.raises(UndefinedError, match="keys"):
        environment().from_string("{{ keys }}").render()


@pytest.mark.parametrize("name", [STYLE_SHEET, PAGE_SCRIPT, "slot_map.js", "keyspace.js"])
def test_styles_and_scripts_cannot_end_their_element(name: str) -> None:
    """They stand in the page as they are."""
    content = read_template(name)

    assert "</" not in content
    assert "<!--" not in content
    assert "\r" not in content
