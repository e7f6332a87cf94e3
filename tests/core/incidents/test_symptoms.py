"""What a moment's answers of all nodes say of a cluster's health."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cluster_core.incidents.symptoms import Checkup, Symptom, SymptomCode, believed, find_symptoms
from cluster_core.kinds import Severity
from cluster_core.topology.nodes_text import read_nodes

IDS = {name: str(number) * 40 for number, name in enumerate(("a", "b", "c", "ra", "rb", "rc"), 1)}
MASTERS = (("a", "0-5460", 1), ("b", "5461-10922", 2), ("c", "10923-16383", 3))
MASTER_INFO = {
    "role": "master",
    "master_repl_offset": "100000000",
    "used_memory": "50",
    "maxmemory": "100",
    "maxclients": "10",
}


def lines(*, change: dict[str, str] | None = None) -> dict[str, str]:
    """The line of each node: masters on hosts 1 to 3, the replica of each on the next host."""
    texts = {
        name: f"{IDS[name]} 10.0.0.{at}:7000@17000 master - 0 0 {epoch} connected {slots}"
        for at, (name, slots, epoch) in enumerate(MASTERS, 1)
    }
    texts |= {
        f"r{name}": f"{IDS[f'r{name}']} 10.0.0.{at % 3 + 1}:7001@17001 slave {IDS[name]} 0 0 {epoch} connected"
        for at, (name, _, epoch) in enumerate(MASTERS, 1)
    }
    return texts | (change or {})


def checkup(name: str, texts: dict[str, str] | None = None, **info: str) -> Checkup:
    """What *name* answers, which sees the cluster as *told*."""
    texts = texts or lines()
    text = (
        "\n".join(
            line.replace(" master ", " myself,master ").replace(" slave ", " myself,slave ") if node == name else line
            for node, line in texts.items()
            if line
        )
        + "\n"
    )
    topology = read_nodes(text.encode())
    me = topology.by_id[IDS[name]]
    usual = MASTER_INFO if me.is_master else {
        "role": "slave", "master_host": topology.by_id[me.master_id].ip, "master_port": "7000",
        "master_link_status": "up", "slave_repl_offset": "100000000", "master_last_io_seconds_ago": "1",
        "used_memory": "50", "maxmemory": "100",
    }  # fmt: skip
    return Checkup(me.address, topology, {"cluster_state": "ok"}, {**usual, **info})


def cluster(**of: Checkup) -> list[Checkup]:
    return [of.get(name) or checkup(name) for name in IDS]


def codes(checkups: list[Checkup]) -> dict[SymptomCode, Symptom]:
    return {symptom.code: symptom for symptom in find_symptoms(checkups)}


def test_a_healthy_cluster_has_no_symptoms():
    no_more_aof = checkup("b", aof_enabled="0", aof_last_write_status="err")

    assert find_symptoms(cluster(b=no_more_aof)) == []


@pytest.mark.parametrize(
    ("name", "info", "code", "severity", "text"),
    [
        ("ra", {"master_link_status": "down"}, SymptomCode.NO_REPLICATION_LINK, Severity.ERROR, "no link to its master 10.0.0.1:7000"),
        ("ra", {"slave_repl_offset": "50000000"}, SymptomCode.REPLICATION_LAG, Severity.WARNING, "50,000,000 bytes behind"),
        ("ra", {"master_last_io_seconds_ago": "60"}, SymptomCode.REPLICATION_LAG, Severity.WARNING, "last heard 60 s ago"),
        ("b", {"used_memory": "95"}, SymptomCode.MEMORY_FULL, Severity.WARNING, "95% of its maxmemory; when full it refuses writes"),
        ("b", {"used_memory": "101", "maxmemory_policy": "allkeys-lru"}, SymptomCode.MEMORY_FULL, Severity.ERROR, "evicts keys"),
        ("b", {"maxmemory": "0"}, SymptomCode.NO_MEMORY_LIMIT, Severity.NOTE, "1 of 6 nodes"),
        ("b", {"aof_last_write_status": "err"}, SymptomCode.SAVE_FAILED, Severity.ERROR, "last write to the AOF failed"),
        ("b", {"rdb_last_bgsave_status": "err"}, SymptomCode.SAVE_FAILED, Severity.ERROR, "last BGSAVE failed"),
        ("b", {"connected_clients": "10"}, SymptomCode.CLIENTS_FULL, Severity.WARNING, "10 of 10 clients"),
        ("b", {"loading": "1"}, SymptomCode.LOADING, Severity.WARNING, "is loading"),
    ],
)  # fmt: skip
def test_a_nodes_own_state_is_reported_with_its_figures(name, info, code, severity, text):
    (symptom,) = find_symptoms(cluster(**{name: checkup(name, **info)}))

    assert (symptom.code, symptom.severity) == (code, severity)
    assert text in symptom.text


def test_lag_is_seen_by_any_name_of_a_node():
    """The first address may be a host name; INFO names the master by another."""
    behind = cluster(a=replace(checkup("a"), address="localhost:7000"), ra=checkup("ra", slave_repl_offset="1"))

    assert [symptom.code for symptom in find_symptoms(behind)] == [SymptomCode.REPLICATION_LAG]


def test_an_unreachable_failing_node_has_both_symptoms():
    """The others hold it for failing; whoever asked got no answer."""
    answers = lines(change={"c": lines()["c"].replace("master", "master,fail")})
    symptoms = codes(
        [Checkup("10.0.0.3:7000", lost="no connection in time") if n == "c" else checkup(n, answers) for n in IDS]
    )

    assert symptoms[SymptomCode.FAIL].text == "10.0.0.3:7000 is FAIL for 5 of 5 nodes"
    assert symptoms[SymptomCode.FAIL].severity is Severity.ERROR
    assert "no connection in time" in symptoms[SymptomCode.NO_ANSWER].text


def test_pfail_by_a_single_node_is_a_warning():
    """PFAIL is one node's own view."""
    answers = lines(change={"c": lines()["c"].replace("master", "master,fail?")})

    (symptom,) = find_symptoms(cluster(a=checkup("a", answers)))

    assert symptom == (Severity.WARNING, SymptomCode.PFAIL, "10.0.0.3:7000 is PFAIL for 1 of 6 nodes")


def test_slots_without_owner_and_a_state_that_is_not_ok_are_errors():
    """Master b has lost its last slots."""
    answers = lines(change={"b": lines()["b"].replace("5461-10922", "5461-10000")})
    symptoms = codes([replace(checkup(n, answers), cluster={"cluster_state": "fail"}) for n in IDS])

    assert symptoms[SymptomCode.UNCOVERED_SLOTS].text == "922 of 16,384 slots have no owner: 10001-10922"
    assert "6 of 6 nodes" in symptoms[SymptomCode.CLUSTER_DOWN].text


def test_nodes_with_other_owners_or_other_members_are_named():
    """Node a still gives slot 5461 to itself and does not know replica rc."""
    answers = lines(
        change={"a": lines()["a"].replace("0-5460", "0-5461"), "b": lines()["b"].replace("5461-", "5462-"), "rc": ""}
    )
    symptoms = codes(cluster(a=checkup("a", answers)))

    assert symptoms[SymptomCode.OWNERS_DIFFER].text.endswith("the rest: 10.0.0.1:7000")
    assert symptoms[SymptomCode.MEMBERS_DIFFER].text.endswith("the rest: 10.0.0.1:7000")
    assert SymptomCode.UNCOVERED_SLOTS not in symptoms


def test_masters_with_equal_epochs_and_open_slots_are_reported():
    """Two masters claim epoch 2; slot 7 is on its way."""
    answers = lines(change={"c": lines()["c"].replace(" 3 connected", " 2 connected")})
    opened = {**answers, "a": answers["a"] + f" [7->-{IDS['b']}]"}
    symptoms = codes([checkup(n, opened if n == "a" else answers) for n in IDS])

    assert symptoms[SymptomCode.EQUAL_EPOCHS].text == "masters share the config epoch 2: 10.0.0.2:7000, 10.0.0.3:7000"
    assert symptoms[SymptomCode.OPEN_SLOTS].text == "slots open for migration: 7, on 10.0.0.1:7000"


def test_masters_without_replica_and_a_single_host_are_reported_once():
    """No replica at all: named once, not again as a shard on one host."""
    answers = {
        name: line.replace("10.0.0.2", "10.0.0.1").replace("10.0.0.3", "10.0.0.1") for name, line in lines().items()
    }
    alone = {name: line for name, line in answers.items() if not name.startswith("r")}
    symptoms = codes([checkup(n, alone) for n in alone])

    assert "3 of 3 masters have no replica" in symptoms[SymptomCode.NO_REPLICA].text
    assert symptoms[SymptomCode.LAYOUT].severity is Severity.NOTE
    assert set(symptoms) == {SymptomCode.NO_REPLICA, SymptomCode.LAYOUT}


def test_a_server_in_no_cluster_has_no_view_to_differ_from():
    """INFO alone; figures that are no numbers count as none."""
    assert find_symptoms([Checkup("h:1", info={"role": "master", "maxmemory": "100", "used_memory": "x"})]) == []
    assert believed([]) is None
