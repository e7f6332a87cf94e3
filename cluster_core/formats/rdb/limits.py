"""Bounds of what is read of an RDB file: what is longer is an error that says so, not an allocation."""

from __future__ import annotations

KEY_BYTES_MAX = 16 << 20
AUX_NAME_BYTES_MAX = 4096
AUX_VALUE_BYTES_MAX = 65_536
AUX_FIELDS_MAX = 256
DATABASES_MAX = 65_536
STRING_BYTES_MAX = 1 << 40
ELEMENTS_MAX = 1 << 40
LZF_WALK_BYTES_MAX = 32 << 20
TEMPLATES_MAX = 1 << 20
KEY_META_CLASSES_MAX = 7
