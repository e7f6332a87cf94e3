"""One self-contained HTML page: templates, styles and scripts in one file that needs no network.

A page is safe against its data in three layers: `slotscope.runtime.text` makes names printable, Jinja2
escapes them, and the page's own Content-Security-Policy (W3C CSP 3) runs nothing but the one script and the
one style sheet whose SHA-256 it states.  Data travels as JSON in a ``<script type="application/json">``, in
which ``<``, ``>``, ``&`` and line separators are escaped.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from slotscope.reports.document import Document, Format, Place, count_by_severity, gravest_first, written
from slotscope.runtime import text

WARNINGS_ON_PAGE = 200
NUMBERS = frozenset(how.value for how in Format if how.is_number)
PAGE_SCRIPT = "page.js"
STYLE_SHEET = "page.css"
_HARMFUL_IN_JSON = {
    ord(character): f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"
}  # the JSON stays the same value


def render_page(
    template: str, context: Mapping[str, object], *, data: object = None, scripts: Sequence[str] = ()
) -> str:
    """Render *template*, which extends ``base.html``; equal input gives equal text.

    The *scripts* read *data*.  They are file names beside the templates and run after the page's
    own (theme, sortable tables).
    """
    style = read_template(STYLE_SHEET)
    script = "\n".join(read_template(name) for name in (PAGE_SCRIPT, *scripts))
    return (
        environment()
        .get_template(template)
        .render(
            **context,
            contents=[],
            style=Markup(style),
            script=Markup(script),
            policy=content_security_policy(style, script),
            data=None if data is None else embedded_json(data),
        )
    )


def render_document(document: Document) -> str:
    """Return *document* as one page, to be written as UTF-8; equal documents give equal text."""
    context = {
        "document": document,
        "subtitle": document.page_subtitle or document.subtitle.removeprefix(" · "),
        "severities": count_by_severity(document.warnings),
        "warnings": gravest_first(document.warnings)[:WARNINGS_ON_PAGE],
        "page": Place.PAGE,
        "numbers": NUMBERS,
        "terminal": Place.TERMINAL,
        "kind_of": lambda block: type(block).__name__,
        "written": lambda value, how: written(value, Format(how)),
    }
    return render_page("document.html", context, data=document.data, scripts=document.scripts)


@cache
def environment() -> Environment:
    """Return the template environment: everything escaped, an unknown name is an error."""
    made = Environment(
        loader=FunctionLoader(read_template),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters.update(
        count=text.count,
        signed_count=text.signed_count,
        size=text.size,
        signed_size=text.signed_size,
        ratio=text.ratio,
        moment=text.moment,
        shown=text.shown,
        printable=text.printable,
    )
    made.globals.update(percent=text.percent, NOTHING=text.NOTHING)
    return made


@cache
def read_template(name: str) -> str:
    """Return the text of a file beside the templates, also when the package is a zip."""
    return (files("slotscope.reports") / "templates" / name).read_text(encoding="utf-8")


def embedded_json(value: object) -> Markup:
    """Return *value* as JSON that cannot end or confuse the script element around it."""
    raw = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Markup(raw.translate(_HARMFUL_IN_JSON))


def content_security_policy(style: str, script: str) -> str:
    """Return a policy that loads nothing and allows only the given style sheet and script."""
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src '{_digest(script)}'",
            f"style-src '{_digest(style)}'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )


def _digest(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode("ascii")
