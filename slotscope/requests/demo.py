"""What ``demo`` is asked."""

from __future__ import annotations

from slotscope.requests.options import Plain, options
from slotscope.runtime.errors import InputError
from slotscope.runtime.storage.stores import folder_of, is_store


@options
class Request(Plain):
    """Where the tables and pages of the demonstration go."""

    root: str = "slotscope-demo"
    """Local folder of the tables and pages."""

    def __post_init__(self) -> None:
        """Refuse what is no local folder: recordings are copied there."""
        object.__setattr__(self, "root", folder_of(self.root))
        if is_store(self.root):
            raise InputError(f"{self.root}: the demonstration needs a local folder")
