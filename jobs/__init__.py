"""Entry points: one module a question, each with `run` (for tests and notebooks) and `main` (for a shell and
spark-submit).
"""

from __future__ import annotations

import gc
import os

_NEW_OBJECTS = 100_000

# A start makes hundreds of thousands of objects that stay: looking through them again and again would be a fifth of it.
gc.set_threshold(_NEW_OBJECTS)
# Nothing here multiplies matrices, and numpy would start threads that wait for that by turning in circles.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
