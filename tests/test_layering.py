"""Imports point one way, the core touches nothing outside itself, and no name is in the way of another:
checked on the syntax trees.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import distributions
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from cluster_core.lazy_names import read_stub
from tests.builders.syntax import statements

ROOT = Path(__file__).parent.parent
PACKAGES = ("cluster_core", "schemas", "slotscope", "jobs")
ORDER = {
    "cluster_core": set(),
    "schemas": {"cluster_core"},
    "slotscope": {"cluster_core", "schemas"},
    "jobs": {"cluster_core", "schemas", "slotscope"},
}
"""Which of our packages each package may import beside itself."""
PROGRAM = "slotscope.__main__"
"""The program imports its commands: nothing imports it."""
GROUPS = {
    "cluster_core": (
        "lazy_names", "columns", "instants", "kinds", "errors", "rules", "sizes", "slots", "wire", "topology", "routing", "load", "gossip", "node", "rdb.grammar", "rdb.head", "formats",
        "memory", "advice", "kernels", "rdb", "aof", "kernels.keys", "kernels.aof", "replication", "rebalance", "replay", "history", "incidents", "sentinel", "sentinel_history", "sim",
    ),
    "slotscope": (
        "runtime", "sql", "servers", "options", "sources", "recording", "registration", "plans", "reports", "transforms", "pipelines", "__main__",
    ),
}  # fmt: skip
"""The groups of a package: each may import those to its left.  A part of a group that stands by itself is named with a point."""
KERNEL_LIBRARIES = {"numpy", "numba", "llvmlite", "pyarrow", "highspy"}
"""llvmlite is what numba itself compiles with: it comes with it.  highspy (HiGHS) solves linear programs in `kernels.linear_program`: it
touches no file, no clock and no chance, and what it says is proven by whole numbers elsewhere."""
COMPILED = (
    "cluster_core.kernels",
    "cluster_core.rdb",
    "cluster_core.rebalance.search",
    "cluster_core.rebalance.bounds",
)
"""Where numba compiles."""
WORLD = {
    "socket",
    "time",
    "random",
    "secrets",
    "uuid",
    "subprocess",
    "threading",
    "asyncio",
    "os",
    "pathlib",
    "tempfile",
}
"""What a core that owns no clock, no chance and no files cannot need.  `random.Random` may come in as an
argument.
"""
WORLD_CALLS = {"open", "input", "print", "hash", "exec", "eval"}


@cache
def trees() -> dict[str, ast.Module]:
    """Every module of the packages by its dotted name."""
    paths = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    return {dotted(path): ast.parse(path.read_bytes()) for path in paths}


def dotted(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(tree: ast.AST, *, when_loaded: bool = False) -> Iterator[str]:
    """Dotted names that *tree* imports; with *when_loaded* only those that loading the module itself
    imports.
    """
    for node in loaded_nodes(tree) if when_loaded else statements(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or "")
            yield from (f"{node.module}.{alias.name}" for alias in node.names if node.module)


def loaded_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Nodes that run when the module is loaded: not the bodies of functions, not what only a type checker
    sees.
    """
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            continue
        yield child
        yield from loaded_nodes(child)


@cache
def imports_of(module: str) -> tuple[str, ...]:
    """What a module of ours imports, anywhere in it."""
    return tuple(imported(trees()[module]))


def modules_of(package: str) -> list[str]:
    return [name for name in trees() if name.split(".")[0] == package]


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_imports_only_packages_below_it(package):
    """Style: cluster_core stands on the standard library, schemas on its rows and on Arrow, slotscope on both, jobs on all."""
    wrong = [
        f"{module} imports {name}"
        for module in modules_of(package)
        if module != PROGRAM
        for name in imports_of(module)
        if name.split(".")[0] in (*PACKAGES, "tests", "benchmarks")
        and name.split(".")[0] not in ORDER[package] | {package}
    ]

    assert wrong == []


def test_the_core_stands_on_the_standard_library_and_its_kernels_on_arrays():
    """Only compiled modules may use numpy, numba and pyarrow."""
    wrong = [
        f"{module} imports {name}"
        for module in modules_of("cluster_core")
        for name in imports_of(module)
        if name.split(".")[0] not in sys.stdlib_module_names | {"cluster_core"}
        and not (module.startswith(COMPILED) and name.split(".")[0] in KERNEL_LIBRARIES)
    ]

    assert wrong == []


def test_schemas_stand_on_arrow():
    """A table can be read and written where there is no Spark."""
    allowed = sys.stdlib_module_names | {"cluster_core", "schemas", "pyarrow"}
    names = {name for module in modules_of("schemas") for name in imports_of(module)}

    assert {name.split(".")[0] for name in names} <= allowed


def test_imports_are_absolute():
    wrong = [f"{m}: {name}" for m in trees() for name in imports_of(m) if name.startswith(".")]

    assert wrong == []


def test_no_module_imports_itself_by_a_detour():
    """The graph of all imports has no cycle: not at load time, not inside functions, not for a type checker."""
    graph = {module: sorted({n for n in imports_of(module) if n in trees() and n != module}) for module in trees()}

    assert find_cycle(graph) == []


@pytest.mark.parametrize("package", sorted(GROUPS))
def test_a_group_imports_only_groups_to_its_left(package):
    """Within a package the order is that of `GROUPS`."""
    order = GROUPS[package]
    imports = {
        (group_of(module, order), group_of(name, order))
        for module in modules_of(package)
        for name in imports_of(module)
        if module != package and name.startswith(f"{package}.")
    }

    assert {name for pair in imports for name in pair} <= set(order)
    assert {(here, there) for here, there in imports if order.index(there) > order.index(here)} == set()


def group_of(module: str, order: tuple[str, ...]) -> str:
    """The longest of the names in *order* that *module* belongs to, else the folder or module below its package."""
    inner = module.split(".", 1)[1]
    groups = [group for group in order if f"{inner}.".startswith(f"{group}.")]
    return max(groups, key=len, default=inner.split(".")[0])


def find_cycle(graph: dict[str, list[str]]) -> list[str]:
    """A cycle of *graph* as the list of its nodes, or an empty list."""
    finished: set[str] = set()
    for start in graph:
        path, pending = [start], [iter(graph[start])]
        while pending:
            following = next(pending[-1], None)
            if following is None:
                finished.add(path.pop())
                pending.pop()
            elif following in path:
                return [*path[path.index(following) :], following]
            elif following not in finished:
                path.append(following)
                pending.append(iter(graph[following]))
    return []


def test_a_cycle_is_detected():
    """The finder itself: a test that cannot fail proves nothing."""
    graph = {"a": ["b"], "b": ["c", "d"], "c": [], "d": ["b"]}

    assert find_cycle(graph) == ["b", "d", "b"]
    assert find_cycle({"a": ["b"], "b": []}) == []


LAZY = "from cluster_core.lazy_names import lazy_names\n__all__, __getattr__, __dir__ = lazy_names(__name__)"


def test_package_files_hold_a_docstring_and_at_most_lazy_names():
    """Importing a package loads none of its modules."""
    packages = [path for package in PACKAGES for path in (ROOT / package).rglob("__init__.py")]
    wrong = []
    for path in packages:
        docstring, *rest = ast.parse(path.read_bytes()).body
        expected = LAZY if path.with_suffix(".pyi").exists() else ""
        if not isinstance(docstring, ast.Expr) or "\n".join(map(ast.unparse, rest)) != expected:
            wrong.append(str(path.relative_to(ROOT)))

    assert len(packages) > len(PACKAGES)
    assert wrong == []


def public_names() -> dict[str, dict[str, str]]:
    """Each package with lazy names: its public names and the modules that define them."""
    stubs = [path for package in PACKAGES for path in (ROOT / package).rglob("__init__.pyi")]
    return {dotted(path): read_stub(path.read_bytes()) for path in stubs}


def test_public_names_are_defined_in_the_module_of_its_stub():
    """A name that moves must move in the stub, too; a name that is a module of the package as well would be hidden by it."""
    wrong = [
        f"{package}: {name} of {home}"
        for package, homes in public_names().items()
        for name, home in homes.items()
        if home not in trees() or name not in defined(trees()[home]) or f"{package}.{name}" in trees()
    ]

    assert len(public_names()) > 10
    assert wrong == []


def defined(tree: ast.Module) -> set[str]:
    """Classes, functions and constants at the top of a module."""
    named = [node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)]
    targets = [
        target
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    ]
    return {*named, *(target.id for target in targets if isinstance(target, ast.Name))}


def test_every_module_has_a_docstring():
    assert [module for module, tree in trees().items() if ast.get_docstring(tree) is None] == []


def test_no_job_is_named_like_a_module_of_the_standard_library():
    """spark-submit puts jobs/ first on the path: jobs/inspect.py would break dataclasses."""
    names = {path.stem for path in (ROOT / "jobs").iterdir() if path.suffix == ".py" or path.is_dir()}

    assert names & (sys.stdlib_module_names - {"__init__"}) == set()


def test_the_core_touches_no_file_no_clock_and_no_chance():
    """Time, chance and IO are arguments; `hash()` differs from run to run."""
    wrong = [
        f"{module}: {name}"
        for module in modules_of("cluster_core")
        if module.rpartition(".")[2] != "__main__"
        for name in (*imported(trees()[module], when_loaded=True), *called(trees()[module]))
        if name.split(".")[0] in WORLD or name in WORLD_CALLS
    ]

    assert wrong == []


def called(tree: ast.AST) -> Iterator[str]:
    """Plain names that *tree* calls, outside ``__hash__``: the hash of an object never leaves the process."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef) and node.name == "__hash__":
            continue
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.func.id
        yield from called(node)


def test_only_the_command_line_and_a_fleet_catch_everything():
    """`except Exception` hides unknown errors: one place turns it into a line and an exit code, one sets a cluster aside."""
    broad = {"Exception", "BaseException"}
    offenders = {
        module
        for module, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ExceptHandler) and (node.type is None or ast.unparse(node.type) in broad)
    }

    assert offenders <= {"slotscope.runtime.cli", "slotscope.pipelines.bus.following"}


def test_only_one_module_starts_a_session():
    """A second `getOrCreate` starts a session with other settings."""
    offenders = {
        module
        for module, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr == "getOrCreate"
    }

    assert offenders <= {"slotscope.runtime.spark.session"}


def test_installed_packages_run_on_the_oldest_python():
    """Debian 12 has Python 3.11.2, and set-up pins one version of each package."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    oldest = project["requires-python"].removeprefix(">=") + ".0"
    needs = {package.name: package.metadata.get("Requires-Python", "") for package in distributions()}

    assert {name: need for name, need in needs.items() if not SpecifierSet(need).contains(oldest)} == {}
