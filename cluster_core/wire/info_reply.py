"""The text that INFO answers, as fields."""

from __future__ import annotations


def read_info(text: bytes) -> dict[str, str]:
    """Fields of an INFO reply; what is no field is left out."""
    fields = {}
    for line in text.split(b"\n"):
        name, colon, value = line.strip().partition(b":")
        if colon and not name.startswith(b"#"):
            fields[name.decode("latin-1")] = value.decode("latin-1")
    return fields
