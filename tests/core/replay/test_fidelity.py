"""How replayed views are judged."""

from __future__ import annotations

import pytest

from benchmarks.fidelity import compare_views, read_sample, score
from cluster_core.replay.rows import NodeViewRow
from tests.builders.gossip_builder import ME, A, B

S = 1_000_000_000
LINES = {
    ME: f"{ME} 127.0.0.1:7000@17000 myself,master - 0 0 1 connected 0-99 [5->-{A}]",
    A: f"{A} 127.0.0.1:7001@17001 master,fail? - 0 0 2 connected 100-199",
}


def view(node: str, from_s: float, to_s: float | None, *, flags: str, epoch: int, slots: str) -> NodeViewRow:
    """An interval of belief of ME."""
    to_ns = None if to_s is None else int(to_s * S)
    return NodeViewRow(
        ME, node, "127.0.0.1", 7000, 17000, "", flags, "", epoch, slots, True, int(from_s * S), to_ns, "", 0
    )


OWN = view(ME, 0, None, flags="myself,master", epoch=1, slots="0-99")


def judged(*views: NodeViewRow, at_s: float = 10) -> dict[str, tuple[str, ...]]:
    """The wrong fields by node of a sample at a time."""
    sample = read_sample(ME, int(at_s * S), int(at_s * S), "\n".join(LINES.values()) + "\n")
    assert sample is not None
    return {verdict.node_id: verdict.wrong for verdict in compare_views(views, [sample])}


@pytest.mark.parametrize(("from_s", "wrong"), [(10.2, ()), (10.3, ("known",))])
def test_a_row_may_be_late_by_a_quarter_of_a_second(from_s: float, wrong: tuple[str, ...]) -> None:
    """The bar for others' rows."""
    assert judged(OWN, view(A, from_s, None, flags="master,fail?", epoch=2, slots="100-199"))[A] == wrong


@pytest.mark.parametrize(("from_s", "wrong"), [(11.0, ()), (11.2, ("known",))])
def test_the_own_row_may_be_late_until_the_next_message(from_s: float, wrong: tuple[str, ...]) -> None:
    """The bar for the observer's own row."""
    assert judged(view(ME, from_s, None, flags="myself,master", epoch=1, slots="0-99"))[ME] == wrong


def test_all_fields_must_be_right_at_one_instant() -> None:
    """Two intervals that are each half right do not make a whole."""
    early = view(A, 0, 10, flags="master", epoch=2, slots="100-199")
    late = view(A, 10, None, flags="master,fail?", epoch=3, slots="")

    assert judged(OWN, early, late)[A] == ("pfail",)


def test_a_node_that_the_answer_lacks_is_wrong() -> None:
    """The node set counts."""
    extra = view(B, 0, None, flags="master", epoch=0, slots="")

    assert judged(OWN, view(A, 0, None, flags="master,fail?", epoch=2, slots="100-199"), extra)[B] == ("known",)


def test_answers_that_list_a_handshake_are_left_aside() -> None:
    """They name ids that live for a second."""
    assert read_sample(ME, 0, 0, f"{A} :0@0 handshake - 0 0 0 connected\n") is None
    assert read_sample(ME, 0, 0, "no such line\n") is None


def test_a_score_counts_rows_and_fields() -> None:
    """Two rows, one wrong in one field."""
    sample = read_sample(ME, 10 * S, 10 * S, "\n".join(LINES.values()))
    assert sample is not None

    result = score(compare_views([OWN, view(A, 0, None, flags="master", epoch=2, slots="100-199")], [sample]))

    assert (result.rows, result.right, result.percent, result.wrong["pfail"]) == (2, 1, 50.0, 1)
