"""Fixtures that everything shares; nothing here starts a JVM or a server before a test asks for one."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import chdir
from fcntl import LOCK_EX, flock
from pathlib import Path
from shutil import copytree
from typing import TYPE_CHECKING, Any, NamedTuple

os.environ["NUMPY_MADVISE_HUGEPAGE"] = "0"  # read as NumPy is imported: thousands of small dumps zero a huge page each

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadGroupScheduling

from tests.benches.browser import open_chromium, what_is_missing
from tests.benches.servers import Server, installed, redis_binary, running, running_cluster_node, valkey_binary
from tests.benches.shown_commands import Printed, furnish, run_page

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

settings.register_profile("test", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=33)
settings.register_profile("ci", settings.get_profile("test"), derandomize=True, print_blob=True)
settings.register_profile("check", settings.get_profile("test"), max_examples=10)
settings.register_profile("all", settings.get_profile("test"), max_examples=300)
settings.load_profile("ci" if os.environ.get("CI") else "test")

gc.set_threshold(50_000)
if "PYTEST_XDIST_WORKER" in os.environ:
    atexit.register(os._exit, 0)  # after all other handlers: to free every object one by one takes seconds

DATA = Path(__file__).parent / "data"


NEEDS = {
    "spark": {"spark"},
    "servers": {"valkey_server", "redis_server", "valkey_cluster_node", "redis_cluster_node", "live"},
    "browser": {"chromium"},
}
"""Marks by the fixtures that a test asks for; a test that starts a JVM, a server or a browser by itself carries the mark in its file."""


TUTORIAL = {"tutorial", "asked_root"}
"""Fixtures for which the tutorial is walked, once: what asks for them stays together."""
JVM = " spark"
"""How the name of a group ends that needs a JVM."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """``pytest PLACE --rewrite``: traces of scenarios, answers of the cookbook and lines below the commands of pages are kept as they are now."""
    parser.addoption(
        "--rewrite", action="store_true", help="write what tests compare with anew: read the diff before you keep it"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test by its needs; the longest come first: groups, then tests that start processes."""
    no_browser = what_is_missing()
    for item in items:
        asked = {*getattr(item, "fixturenames", ()), *_named_by_parameters(item)}
        for mark, fixtures in NEEDS.items():
            if asked & fixtures:
                item.add_marker(mark)
        if "live" in item.path.parts:
            item.add_marker("servers")
        if no_browser and item.get_closest_marker("browser"):
            item.add_marker(pytest.mark.skip(reason=no_browser))  # here, so that the summary names the files
    ranks = {}
    for item in items:
        if group := _group_of(item):
            item.add_marker(pytest.mark.xdist_group(group))
        ranks[item] = ("tutorial" not in group, not group, not item.get_closest_marker("processes"))
    items.sort(key=ranks.__getitem__)


def pytest_collection_finish() -> None:
    """Tests and modules stay until the end: the garbage collector leaves them alone."""
    gc.freeze()


def _group_of(item: pytest.Item) -> str:
    """Which tests stay together in one process: those of the tutorial, of a file with a JVM, of servers, which mostly wait, of the browser."""
    if TUTORIAL & {*getattr(item, "fixturenames", ()), *_named_by_parameters(item)}:
        return f"tutorial{JVM}"
    if item.get_closest_marker("spark"):
        return f"{item.path.stem}{JVM}"
    if item.get_closest_marker("processes"):
        return ""
    if item.get_closest_marker("servers"):
        return "live" if "live" in item.path.parts else "servers"
    return "browser" if item.get_closest_marker("browser") else ""


def _named_by_parameters(item: pytest.Item) -> set[str]:
    """Texts among the parameters of a test: it may get a fixture by its name."""
    call = getattr(item, "callspec", None)
    return {value for value in call.params.values() if isinstance(value, str)} if call else set()


class FilesAndGroups(LoadGroupScheduling):
    """Gives a process all tests of a file, as all of a group; the first two processes take those that need a JVM, which is warmed up in each."""

    def _split_scope(self, nodeid: str) -> str:
        scope: str = super()._split_scope(nodeid)
        return scope.split("::")[0]

    def _reschedule(self, node: Any) -> None:
        others_have_jvms = any(map(_has_jvm, self.nodes))
        if self.workqueue and others_have_jvms and not _has_jvm(node) and all(map(_needs_jvm, self.workqueue)):
            node.shutdown()
        else:
            super()._reschedule(node)

    def _assign_work_unit(self, node: Any) -> None:
        for scope in [scope for scope in self.workqueue if _needs_jvm(scope) != _has_jvm(node)]:
            self.workqueue.move_to_end(scope)
        super()._assign_work_unit(node)


def _needs_jvm(scope: str) -> bool:
    return scope.endswith(JVM)


def _has_jvm(node: Any) -> bool:
    return node.gateway.id in ("gw0", "gw1")


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FilesAndGroups | None:
    """The scheduler of ``--dist loadgroup``, which keeps the order of the collection."""
    if config.getoption("dist") != "loadgroup":
        return None
    config.option.loadscopereorder = False  # else a file of one test comes last, though it may be the longest
    return FilesAndGroups(config, log)


@pytest.fixture(autouse=True)
def without_a_session(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that starts a JVM without the mark `spark`: it would be a second one, in a process that needs none."""
    had_one = _has_session()
    yield
    if not had_one and _has_session() and request.node.get_closest_marker("spark") is None:
        pytest.fail("a Spark session was started by a test without the mark `spark`")


def _has_session() -> bool:
    context = sys.modules.get("pyspark.core.context")
    return context is not None and context.SparkContext._gateway is not None


@pytest.fixture(scope="session")
def spark() -> SparkSession:
    """One session on two threads for all tests of a process; it ends with Python."""
    from slotscope.runtime.spark.session import spark_session

    return spark_session("tests", master="local[2]")


def _made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """The folder *name* that *make* fills: in the test process that comes first, for all of them."""
    shared = factory.getbasetemp().parent if os.environ.get("PYTEST_XDIST_WORKER") else factory.mktemp("shared")
    folder, done = shared / name, shared / f"{name}.done"
    with open(shared / f"{name}.lock", "w") as lock:
        flock(lock, LOCK_EX)
        if not done.exists():
            make(folder)
            done.touch()
    return folder


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """One browser for all tests."""
    with open_chromium() as driver:
        yield driver


@pytest.fixture(scope="session")
def recorded_root(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables of the recorded cluster, snapshots ``before`` (with its keys) and ``after``: to read; who writes takes a copy."""
    from jobs import key_slots
    from jobs.key_slots import Request

    recorded = DATA / "valkey-9.1"

    def make(root: Path) -> None:
        for name in ("before", "after"):
            request = Request(
                root=str(root), snapshot=name, rdb=[str(recorded / name / "*.rdb")], keep_keys=name == "before",
                topology=str(recorded / "topology" / "nodes.txt"), top=5,
            )  # fmt: skip
            key_slots.run(spark, request)

    return _made_once(tmp_path_factory, "recorded", make)


class Walk(NamedTuple):
    """What the commands of a page left: their folder with the tables in `root`, and what each printed."""

    folder: Path
    printed: dict[str, Printed]

    @property
    def root(self) -> Path:
        return self.folder / "slotscope-data"


@pytest.fixture(scope="session")
def tutorial(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Walk:
    """The tutorial, from its first command to its last: tables to read; who writes takes a copy of its root."""
    folder = tmp_path_factory.mktemp("tutorial")
    furnish(folder)
    return Walk(folder, run_page("docs/tutorial.md", folder, {}))


@pytest.fixture(scope="session")
def asked_root(tutorial: Walk, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The root of the cookbook: that of the tutorial, with the keys of its newest snapshot, which is written a second time."""
    from tests.benches.program import slotscope

    root = str(copytree(tutorial.root, tmp_path_factory.mktemp("asked") / "root"))
    again = "key-slots --rdb dumps/*.rdb --topology nodes.txt --snapshot after --keep-keys"
    with chdir(tutorial.folder):
        assert slotscope(*again.split(), "--root", root) == 0
    return root


@pytest.fixture(scope="session")
def history_root(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Tables of a replay that was written by hand, snapshot ``one``: a failover, its incidents and findings; to read."""
    from tests.builders.history_builder import broken_tale
    from tests.builders.history_tables import write_tale

    def make(root: Path) -> None:
        write_tale(str(root), "one", broken_tale())

    return str(_made_once(tmp_path_factory, "told", make))


@pytest.fixture(scope="session")
def replayed_root(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables of a recorded failover, replayed from its capture alone: to read."""
    from jobs import history as history_job
    from jobs.history import Request

    capture = DATA / "bus-redis-7.0" / "bus.pcap.gz"

    def make(root: Path) -> None:
        history_job.run(spark, Request(root=str(root), snapshot="current", pcap=[str(capture)], node_timeout_ms=1000))

    return _made_once(tmp_path_factory, "replayed", make)


@pytest.fixture(scope="session")
def valkey_server() -> Iterator[Server]:
    """A standalone Valkey; its data is whatever the last test left."""
    with running(installed(valkey_binary())) as server:
        yield server


@pytest.fixture(scope="session")
def redis_server() -> Iterator[Server]:
    """A standalone Redis; its data is whatever the last test left."""
    with running(installed(redis_binary())) as server:
        yield server


@pytest.fixture(scope="session")
def valkey_cluster_node() -> Iterator[Server]:
    """A Valkey cluster of one node, with all slots."""
    with running_cluster_node(installed(valkey_binary())) as server:
        yield server


@pytest.fixture(scope="session")
def redis_cluster_node() -> Iterator[Server]:
    """A Redis cluster of one node, with all slots."""
    with running_cluster_node(installed(redis_binary())) as server:
        yield server
