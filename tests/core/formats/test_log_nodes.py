"""Several nodes in one log: separated by source and process, or refused."""

from __future__ import annotations

from cluster_core.formats.log_nodes import split_nodes
from cluster_core.formats.server_log import LogRow, read_log

A, B, C = "a" * 40, "b" * 40, "c" * 40


def line(pid: int, second: int, text: str, role: str = "M") -> str:
    return f"{pid}:{role} 21 Nov 2026 10:{second // 60:02}:{second % 60:02}.000 * {text}"


def start(pid: int, second: int, node: str) -> list[str]:
    return [
        line(pid, second, "Valkey version=8.1.8, bits=64, commit=0, modified=0, pid=1, just started"),
        line(pid, second, f"Node configuration loaded, I'm {node}"),
    ]


OK, BYE = "Cluster state changed: ok", "Valkey is now ready to exit, bye bye..."


def split(*lines: str):
    rows = [row for row in read_log(["\n".join(lines).encode()]) if isinstance(row, LogRow)]
    logs, conflicts = split_nodes(rows)
    return [(log.source, log.ids, [row.line for row in log.rows]) for log in logs], [
        conflict.reason for conflict in conflicts
    ]


def test_a_restart_is_the_same_node():
    """A new process number, the same id; what stands before the first start is of that node, too."""
    lines = [line(7, 1, OK), line(7, 2, BYE), *start(9, 3, A), line(9, 4, OK)]

    assert split(*lines) == ([("", [A], [1, 2, 3, 4, 5])], [])


def test_a_reset_gives_the_node_another_id():
    """CLUSTER RESET HARD; the next process starts with the new id."""
    lines = [*start(7, 1, A), line(7, 2, f"Node hard reset, now I'm {B}"), *start(7, 3, B), line(7, 4, OK)]

    assert split(*lines) == ([("", [A, B], [1, 2, 3, 4, 5, 6])], [])


def test_interleaved_processes_are_separated_by_their_numbers():
    """Several servers of a host in one file."""
    lines = [*start(7, 1, A), *start(8, 2, B), line(7, 3, OK), line(8, 3, OK)]

    assert split(*lines) == ([("", [A], [1, 2, 5]), ("", [B], [3, 4, 6])], [])


def test_concatenated_logs_are_separated_where_time_goes_back():
    """cat of the logs of containers, where each process is 1."""
    lines = [*start(1, 10, A), line(1, 11, OK), *start(1, 5, B), line(1, 6, OK)]

    assert split(*lines) == ([("", [A], [1, 2, 3]), ("", [B], [4, 5, 6])], [])


def test_a_container_that_got_another_id_after_it_ended_is_split():
    """Its nodes.conf was on no volume."""
    lines = [*start(1, 1, A), line(1, 2, BYE), *start(1, 3, B), line(1, 4, OK)]

    assert [ids for _, ids, _ in split(*lines)[0]] == [[A], [B]]


def test_two_nodes_that_write_as_one_process_are_refused():
    """kubectl logs -f -l app=redis without --prefix: the node of the third line is unknown."""
    logs, (reason,) = split(*start(1, 1, A), *start(1, 1, B), line(1, 2, OK))

    assert logs == []
    assert reason.startswith("nodes aaaaaaaa and bbbbbbbb write as one process, 1: export the log with pod")


def test_sources_of_a_shipper_are_nodes_and_their_lines_come_in_order_of_time():
    """logcli gives the newest line first."""
    entries = [(pod, text) for pod, node in (("r-0", A), ("r-1", B)) for text in (*start(1, 1, node), line(1, 2, OK))]
    lines = [f"[pod/{pod}/redis] {text}" for pod, text in reversed(entries)]

    logs, conflicts = split(*lines)

    assert {(source, *ids) for source, ids, _ in logs} == {("r-0/redis", A), ("r-1/redis", B)}
    assert [rows[-1] for _, _, rows in logs] == [1, 4]
    assert conflicts == []


def test_a_source_that_never_names_its_node_stays_apart():
    """An export of last night rarely includes starts."""
    logs, conflicts = split(*(f"[pod/r-{n}/redis] {line(1, 2, OK)}" for n in (0, 1)))

    assert logs == [("r-0/redis", [], [1]), ("r-1/redis", [], [2])]
    assert conflicts == []


def test_lines_before_the_first_start_have_no_node_if_two_write():
    """They may be of either."""
    logs, (reason,) = split(line(5, 1, OK), *start(7, 2, A), *start(8, 2, B))

    assert [ids for _, ids, _ in logs] == [[A], [B]]
    assert reason.startswith("no line says which node process 5 is")


def test_a_concatenated_log_without_a_start_is_refused():
    """Two rotated files in one: time goes back, and no line says who wrote the second half."""
    logs, (reason,) = split(line(1, 500, OK), line(1, 2, OK))

    assert logs == [("", [], [1])]
    assert reason.startswith("no line says which node process 1 is")


def test_a_child_belongs_to_the_process_before_it():
    """Children that save an RDB write with their own numbers."""
    lines = [*start(7, 1, A), line(71, 2, "Done loading RDB, keys loaded: 4", "C"), *start(8, 3, B)]

    assert [rows for _, _, rows in split(*lines)[0]] == [[1, 2, 3], [4, 5]]
