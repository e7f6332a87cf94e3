"""`slotscope lab bus-dump`: one line a message, filters, JSON lines, hostile text, damage."""

from __future__ import annotations

import base64
import gzip
import json
import re

import pytest

from cluster_core.wire.bus import encode_message
from cluster_core.wire.bus_message import (
    HOSTNAME,
    Fail,
    Gossip,
    GossipEntry,
    MessageType,
    Update,
    text_extension,
)
from jobs.main import main
from tests.benches.program import without_progress
from tests.builders.bus_builder import (
    START_NS,
    bitmap,
    closing,
    conversation,
    every_kind,
    gossip_message,
    light,
    message,
    pcap,
    pcapng,
    ping,
)

ONE, TWO, SICK = "1" * 40, "2" * 40, "d" * 40
SECOND = START_NS // 1_000_000_000


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["bus-dump", *words])
    return int(ended.value.code or 0)


def write(tmp_path, sent, name: str = "bus.pcap") -> str:
    path = tmp_path / name
    data = pcap(sent)
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return str(path)


def talk() -> list:
    """Two nodes: a ping and its pong, gossip about a sick node, a FAIL, an UPDATE, a publication."""
    doubt = Gossip((GossipEntry(SICK, 1, 2, "10.0.0.9", 6379, 16379, 0x5),))
    ours = [
        ping(ONE),
        message(MessageType.PING, doubt, ONE, count=1),
        message(MessageType.FAIL, Fail(SICK), ONE),
        light(channel=b"news\x1b[31m\xe2\x80\xae", text=b"secret"),
    ]
    theirs = [ping(TWO), message(MessageType.UPDATE, Update(9, SICK, bitmap(5, 6)), TWO)]
    sent = conversation([encode_message(one) for one in ours], [encode_message(one) for one in theirs])
    return [*sent, closing(sent[-1])]


def shown(capsys) -> list[str]:
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("name", ["bus.pcap", "bus.pcap.gz"])
def test_a_message_is_a_line(tmp_path, capsys, name):
    """Time, addresses, ids, type, epochs, role, slots, gossip, what it is about."""
    code = run(write(tmp_path, talk(), name))
    lines = shown(capsys)

    assert code == 0
    assert [re.split(r" > \S+ +", line)[2].split()[0] for line in lines] == [
        "ping",
        "ping",
        "fail",
        "publish",
        "ping",
        "update",
    ]
    assert "10.0.0.1:40000 > 10.0.0.2:16379  11111111 > ?" in lines[0]
    assert "10.0.0.2:16379 > 10.0.0.1:40000  22222222 > 11111111" in lines[4]
    assert "gossip 1 (dddddddd master,fail?)" in lines[1]
    assert "epoch 7/0  master  slots 2  about dddddddd" in lines[2]
    assert "about dddddddd epoch 9 slots 2" in lines[5]


def test_text_of_strangers_cannot_act_on_a_terminal(tmp_path, capsys):
    """Channels, host names and ids are anything: escapes, direction overrides, line feeds."""
    nasty = gossip_message(
        MessageType.PING, "\x1b]0;x\x07\n" * 4, extensions=[text_extension(HOSTNAME, "h\x1b[2J\u202e")]
    )
    sent = conversation([encode_message(nasty), encode_message(light(channel=b"a\nb\x1b[31m\xff", text=b"\x9b"))])

    run(write(tmp_path, sent))
    out = capsys.readouterr().out

    assert all(char == "\n" or char.isprintable() for char in out)
    assert "\u202e" not in out
    assert r"channel a\nb" not in out
    assert r"channel a\x0ab\x1b[31m\xff" in out


@pytest.mark.parametrize(
    ("words", "kinds"),
    [
        (["--type", "ping"], ["ping", "ping", "ping"]),
        (["--type", "fail", "update"], ["fail", "update"]),
        (["--subject", "dddd"], ["ping", "fail", "update"]),
        (["--node", "2222"], ["ping", "update"]),
        (["--node", "16379", "--type", "fail"], ["fail"]),
        (["--node", "10.0.0.1:40000", "--limit", "2"], ["ping", "ping"]),
        (["--node", "10.0.0.7"], []),
        (["--stream", "0", "--type", "publish"], ["publish"]),
        (["--stream", "1"], []),
        (["--until", f"{SECOND}.0045"], ["ping", "ping"]),
        (["--since", f"{SECOND}.0045", "--until", f"{SECOND}.0065"], ["fail", "publish"]),
        (["--type", "connection"], ["SYN", "SYN-ACK", "FIN"]),
    ],
)
def test_filters_choose_rows(tmp_path, capsys, words, kinds):
    """By type, subject, node, connection, time; number."""
    run(write(tmp_path, talk()), *words)
    found = [next(kind for kind in (*["ping", "fail", "update", "publish"], "SYN-ACK", "SYN", "FIN") if f"  {kind}" in line)
             for line in shown(capsys)]  # fmt: skip

    assert found == kinds


def test_times_may_be_counted_from_the_first_line(tmp_path, capsys):
    run(write(tmp_path, talk()), "--relative")

    assert capsys.readouterr().out.startswith("    0.000000  10.0.0.1:40000 > ")


def test_json_lines_say_all(tmp_path, capsys):
    """A line a row, with the fields of every kind of message."""
    sent = conversation([encode_message(one) for one in every_kind()])

    run(write(tmp_path, [*sent, closing(sent[-1])]), "--json")

    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    messages = [line["message"] for line in lines if line["row"] == "message"]
    assert {line["row"] for line in lines} == {"message", "connection"}
    assert [message["type"] for message in messages] == [message.name for message in every_kind()]
    assert messages[0]["extension_records"][0]["value"] == "node-1.example"
    assert messages[0]["gossip"][1]["node"] == f"{1:040x}"
    assert messages[3]["node"] == TWO
    assert messages[7]["update"] == {"config_epoch": 9, "node": "3" * 40, "slots": "5 16383"}
    assert (messages[4]["channel"], messages[4]["message"]) == ("channel", "text")
    assert "raw" not in messages[0]


def test_a_json_line_has_the_bytes_that_were_not_understood_or_not_captured(tmp_path, capsys):
    """In base64, with the reason."""
    whole = encode_message(ping())
    claims = whole[:14] + b"\xff\xff" + whole[16:]

    run(write(tmp_path, conversation([claims])), "--json")

    (line,) = (row for row in map(json.loads, capsys.readouterr().out.splitlines()) if row["row"] == "message")
    assert base64.b64decode(line["message"]["raw"]) == claims
    assert "65535" in line["message"]["reason"]


def test_what_is_no_message_is_a_line_and_the_exit_code_says_so(tmp_path, capsys):
    """Another protocol, a gap, a file that ends too early: exit code 3."""
    sent = conversation([b"GET / HTTP/1.1\r\n\r\n" * 5])
    lost = conversation([encode_message(ping(ONE)) for _ in range(4)], client=("10.0.0.5", 4000))
    del lost[4]
    path = tmp_path / "x.pcapng"
    path.write_bytes(pcapng([*sent, *lost])[:-5])

    code = run(str(path))
    out = capsys.readouterr().out

    assert code == 3
    assert "UNKNOWN      90 bytes are no bus message" in out
    assert "GAP " in out
    assert "file ends inside a block" in out


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["nowhere.pcap"],
        [__file__],
        ["{path}", "--type", "pinggg"],
        ["{path}", "--since", "yesterday"],
        ["{path}", "--limit", "0"],
    ],
)
def test_a_wish_that_cannot_be_carried_out_is_one_line(tmp_path, capsys, words):
    """Exit code 2."""
    path = write(tmp_path, talk())

    assert run(*(word.format(path=path) for word in words)) == 2
    assert len(without_progress(capsys.readouterr().err)) == 1
