"""Cache compiled kernels in the user's cache folder by the content of their sources.

The folder's name is a digest of the kernel's module and of all its imports from this project: equal sources share code
across clones and executors, changed sources never match. Entries are moved into place, so concurrent processes are safe.

The folder is ``$NUMBA_CACHE_DIR/slotscope``, or ``slotscope`` in the user's cache folder (``$XDG_CACHE_HOME``,
``~/.cache``). It can be deleted at any time. If it cannot be written, each process compiles its kernels.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Callable
from functools import cache, cached_property
from pickle import UnpicklingError
from typing import Any

import numba
from llvmlite import binding  # type: ignore[import-untyped]
from numba.core import caching, compiler
from numba.core.runtime import nrt
from numba.misc import appdirs

OURS = "cluster_core"
KNOWN_MODULES = "__known_modules__"
"""Global of a function: further modules that it depends on without an import."""
_CACHING: Any = caching
_CONFIG: Any = numba.config
_COMPILED: Any = compiler.CompileResult
_LLVM: Any = binding
_FOLDERS: Any = appdirs
_IMPORT = re.compile(
    r"^(?:from (cluster_core[\w.]*) import (\([^)]*\)|[^\n]*)|import (cluster_core[\w.]*))", re.MULTILINE
)


class CodeCache:
    """Compiled signatures of one function, in place of numba's `FunctionCache`."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._py_func: Any = function  # attribute that numba's key reads

    @cached_property
    def digest(self) -> str:
        """Return the digest of all source dependencies, ``""`` if unknown; read at the first call, with modules complete."""
        seen = self._py_func.__globals__
        return source_digest(
            *sorted({__name__, self._py_func.__module__, seen["__name__"], *seen.get(KNOWN_MODULES, ())})
        )

    @property
    def cache_path(self) -> str:
        """The folder of the function's module."""
        return f"{_cache_folder()}/{self._py_func.__module__.rpartition('.')[2]}-{self.digest[:32]}"

    def load_overload(self, signature: Any, target: Any) -> Any:
        """Return the cached code for *signature*, or None."""
        nrt.rtsys.initialize(target)
        if not self.digest:
            return None
        key, file = self._file(signature, target.codegen())
        try:
            kept = _load(file, key)
        except OSError:
            return None  # unreadable, and not writable either
        return None if kept is None else _rebuilt(target, *kept)

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Save the code of *signature* if there is room."""
        if (
            not self.digest
            or compiled.lifted
            or compiled.library.has_dynamic_globals
            or not _is_writable(self.cache_path)
        ):
            return
        key, file = self._file(signature, compiled.library.codegen)
        try:
            file.save(key, _with_outline(*compiled._reduce()))
        except OSError:
            return  # no room: this process keeps its code in memory

    def flush(self) -> None:
        """Keep all entries: changed sources have another folder."""

    def _file(self, signature: Any, codegen: Any) -> tuple[Any, Any]:
        """Return numba's key of the code (signature, CPU, bytecode, closure), and its file."""
        key = _CACHING.FunctionCache._index_key(self, signature, codegen)
        code = self._py_func.__code__
        name = f"{self._py_func.__qualname__}-{code.co_firstlineno}-{_digest(repr(key))[:16]}"
        return key, _CACHING.IndexDataCacheFile(self.cache_path, name.replace("<", "").replace(">", ""), self.digest)


def _load(file: Any, key: Any) -> Any:
    """Read an entry; empty a damaged one, so that it is written again."""
    try:
        return file.load(key)
    except (EOFError, UnpicklingError):
        file.flush()
        return None


def _with_outline(library: tuple[str, str, tuple[bytes, bytes]], *rest: Any) -> tuple[Any, ...]:
    """Return compiled code to save: its *library* with bitcode kept apart, which takes longest to read.

    A run needs machine code only; bitcode is for compiling other code.
    """
    name, kind, (machine_code, bitcode) = library
    whole = _LLVM.parse_bitcode(bitcode)
    lines = [
        f'define linkonce_odr void @"{item.name}"() {{ ret void }}'
        for item in whole.functions
        if not item.is_declaration
    ]
    lines += [
        f'@"{item.name}" = linkonce_odr global i8 0' for item in whole.global_variables if not item.is_declaration
    ]
    outline = _LLVM.parse_assembly("\n".join(lines)).as_bitcode()
    return (name, kind, (machine_code, outline)), bitcode, *rest


def _rebuilt(target: Any, library: Any, bitcode: bytes, *rest: Any) -> Any:
    """Restore code saved by `_with_outline`; its bitcode is read when other code is linked with it."""
    compiled = _COMPILED._rebuild(target, library, *rest)
    made = compiled.library

    def module_for_linking() -> Any:
        if made._shared_module is None:
            made._shared_module = _LLVM.parse_bitcode(bitcode)
        return made._shared_module

    made._shared_module, made._get_module_for_linking = None, module_for_linking
    return compiled


@cache
def source_digest(*modules: str) -> str:
    """Digest the sources of *modules* and of their imports from this project, with other inputs of the code."""
    sources: dict[str, str] = {}
    pending = list(modules)
    while pending:
        name = pending.pop()
        if name in sources:
            continue
        source = _source(name)
        if not source:
            return ""
        sources[name] = source
        pending += _imports(source)
    parts = [
        numba.__version__,
        sys.version,
        repr(_CONFIG.BOUNDSCHECK),
        *(part for item in sorted(sources.items()) for part in item),
    ]
    return _digest("\0".join(parts))


def _source(name: str) -> str:
    """Return the text of a loaded module of this project, from a folder or a zip."""
    module = sys.modules.get(name)
    loader: Any = getattr(module, "__loader__", None)
    if not name.startswith(OURS) or not hasattr(loader, "get_source"):
        return ""
    return loader.get_source(name) or ""


def _imports(source: str) -> set[str]:
    """Return the modules of this project that *source* imports at its top level."""
    modules: set[str] = set()
    for package, names, module in _IMPORT.findall(source):
        whole = {
            f"{package}.{name.split()[0]}" for name in names.strip("() ").replace("\n", " ").split(",") if name.strip()
        }
        modules |= {name for name in (package, module, *whole) if name in sys.modules}
    return modules


def _cache_folder() -> str:
    folder = _CONFIG.CACHE_DIR
    if folder:
        return f"{folder}/slotscope"
    users = str(_FOLDERS.AppDirs("slotscope", appauthor=False).user_cache_dir)
    # XDG: an empty variable, or one without an absolute path, is not set.
    paths = _FOLDERS.os.path
    return users if paths.isabs(users) else str(paths.expanduser("~/.cache/slotscope"))


@cache
def _is_writable(folder: str) -> bool:
    """Return whether code can be saved in *folder*, which is created if needed."""
    try:
        _CACHING._CacheLocator.ensure_cache_path(_Folder(folder))
    except OSError:
        return False
    return True


class _Folder:
    """Questions of numba about a folder before it writes there."""

    def __init__(self, path: str) -> None:
        self._path = path

    def get_cache_path(self) -> str:
        return self._path


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
