"""What peers may do: garbage, wrong types, lies about sizes, hello messages with wrong fields, our own id."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster_core.sentinel import events as ev
from cluster_core.sentinel.instance import Address
from cluster_core.sentinel.state import EPOCH_MAX, INSTANCES_MAX
from cluster_core.wire.resp import RespError
from tests.benches.resp import encode_value
from tests.benches.sentinel_bench import MASTER, MY_ID, Bench, info_of_master
from tests.examples import examples

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats()
    | st.binary(max_size=60)
    | st.text(max_size=60)
    | st.builds(RespError, st.text(max_size=30)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.binary(max_size=3), inner, max_size=2),
    max_leaves=6,
)


def answer_all(bench: Bench, value: object) -> None:
    """Answer whatever waits, on every connection, with *value*."""
    for number, connection in list(bench.sentinel.state.connections.items()):
        for _ in range(len(connection.awaited) + 1):
            bench.handle(ev.ReplyReceived(number, value))


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(VALUES, min_size=1, max_size=8))
def test_any_value_may_come_in_on_any_connection(values):
    """No event makes a sentinel raise, and its output stays RESP."""
    bench = Bench()
    bench.silent.add(MASTER)
    for value in values:
        bench.pass_ms(700)
        answer_all(bench, value)
    bench.pass_ms(20_000, 500)

    assert encode_value(bench.say("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main"), protocol=2)


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(st.binary(max_size=20), min_size=1, max_size=8), st.booleans())
def test_any_command_has_an_answer(arguments, is_ours):
    bench = Bench()
    bench.replies.clear()
    bench.handle(ev.ClientCommand(3, ((b"SENTINEL", *arguments) if is_ours else tuple(arguments))))

    for reply in bench.replies:
        encode_value(reply, protocol=2)
    assert "\n" not in "".join(reply.text for reply in bench.replies if isinstance(reply, RespError))


@pytest.mark.parametrize(
    "text",
    [
        f"10.0.9.1,26379,{MY_ID},0,main,10.0.0.2,6379,9",
        f"10.0.9.1,26379,{'5' * 40},0,nobody,10.0.0.2,6379,9",
        f"nowhere,26379,{'5' * 40},0,main,10.0.0.2,6379,9",
        f"10.0.9.1,70000,{'5' * 40},0,main,10.0.0.2,6379,9",
        f"10.0.9.1,-1,{'5' * 40},0,main,10.0.0.2,6379,9",
        "10.0.9.1,26379,,0,main,10.0.0.2,6379,9",
        "10.0.9.1,26379,x\nsentinel monitor evil 10.0.0.2 1 1,0,main,10.0.0.2,6379,9",
    ],
)
def test_a_hello_that_cannot_be_true_changes_no_configuration(text):
    bench = Bench()
    bench.hello(text)

    assert bench.master.sentinels == {}
    assert bench.master.address == Address(*MASTER)
    assert list(bench.sentinel.state.masters) == ["main"]


@pytest.mark.long
def test_a_flood_of_sentinels_and_replicas_is_bounded():
    """So many are kept that no honest deployment notices, and no dishonest one fills the memory."""
    bench = Bench()
    for number in range(INSTANCES_MAX + 50):
        bench.hello(f"10.1.{number // 250}.{number % 250},26379,{number:040x},0,main,10.0.0.1,6379,0")
    places = [(f"10.2.{n // 250}.{n % 250}", 6379) for n in range(INSTANCES_MAX + 50)]
    bench.infos[MASTER] = info_of_master(*places)
    bench.refusing |= {(f"10.1.{n // 250}.{n % 250}", 26379) for n in range(INSTANCES_MAX)} | set(places)
    bench.pass_ms(200)

    assert len(bench.master.sentinels) == len(bench.master.replicas) == INSTANCES_MAX


def test_votes_for_invalid_names_are_dropped():
    """A leader's id has forty digits; an opinion with a longer one is no vote."""
    bench = Bench()
    bench.pass_ms(1000)
    place = bench.meet(1)
    bench.silent.add(MASTER)
    bench.opinions[place] = [1, b"z" * 10_000, 1]
    bench.pass_ms(5000)

    assert next(iter(bench.master.sentinels.values())).leader == ""


@pytest.mark.parametrize("epoch", [EPOCH_MAX, EPOCH_MAX + 1, 2**63 - 1])
def test_an_epoch_beyond_all_bounds_can_still_be_sent(epoch):
    """A peer that lies about its epoch cannot make us say what no peer can read."""
    bench = Bench()
    bench.meet(1)
    bench.hello(f"10.0.9.1,26379,{1:040x},{epoch},main,10.0.0.1,6379,0")
    reply = bench.say("SENTINEL", "IS-MASTER-DOWN-BY-ADDR", "10.0.0.1", "6379", str(epoch), "x" * 40)
    bench.silent.add(MASTER)
    bench.opinions[("10.0.9.1", 26379)] = [1, b"*", 0]
    bench.pass_ms(30_000)

    assert bench.sentinel.state.current_epoch <= EPOCH_MAX + 5

    assert encode_value(reply, protocol=2)
    assert encode_value(bench.say("SENTINEL", "IS-MASTER-DOWN-BY-ADDR", "10.0.0.1", "6379", "1", "y" * 40), protocol=2)
