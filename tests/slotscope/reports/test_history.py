"""The report on a cluster's history: spans of roles and health, terminal, page; hostile text shows as text."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import pytest
from rich.console import Console

from cluster_core.gossip.causes import Cause
from cluster_core.instants import write_instant
from cluster_core.kinds import Source
from cluster_core.replay.rows import NodeViewRow
from schemas.caveats import Caveat, Code
from slotscope.reports.history.html import PAGE_BYTES_MAX, ListLimits, draw_lanes, render_history
from slotscope.reports.history.report import HistoryNode, gravest_of, role_spans
from slotscope.reports.history.terminal import clock, moment, print_incidents, print_story
from slotscope.reports.history.views import address_book, agreed_views, past_difference, past_view
from tests.builders.history_builder import A, B, C, R, failover_tale, ns
from tests.builders.history_report import history_report


def test_every_entry_of_the_legend_has_the_colour_of_what_it_explains() -> None:
    page = render_history(history_report())
    keys = set(re.findall(r'class="band-key ([\w-]+)"', page))

    assert "mark-election" in keys
    assert {key for key in keys if f".{key} {{" not in page} == set()


@pytest.mark.long
@pytest.mark.parametrize(("incidents", "story_steps"), [(120, 1250), pytest.param(500, 5000, marks=pytest.mark.slow)])
def test_a_page_stays_small_whatever_the_size_of_the_cluster(incidents: int, story_steps: int) -> None:
    """A thousand nodes, hundreds of incidents with long stories: every list is cut, with its total."""
    report = history_report()
    steps = report.incidents[0].steps
    story = replace(
        report.incidents[0], steps=steps * max(story_steps // max(len(steps), 1), 1), step_count=story_steps
    )
    nodes = [HistoryNode(f"{number:040x}", f"{number:08x}", f"10.0.0.1:{number}") for number in range(1000)]
    lanes = [replace(report.lanes[number % len(report.lanes)], node=node) for number, node in enumerate(nodes)]

    large = replace(report, nodes=nodes, lanes=lanes, incidents=[story] * incidents)
    page = render_history(large)

    assert len(page.encode()) <= PAGE_BYTES_MAX
    assert f"of {incidents} incidents" in page
    assert "of 1,000 nodes" in page
    assert f"of {incidents} incidents" not in render_history(replace(large, incidents=[story]))


def test_lanes_of_a_failover_stand_above_those_of_earlier_incidents() -> None:
    """A person who opens the page looks for them first."""
    report = history_report()
    failover = next(incident for incident in report.incidents if incident.kind == "failover")
    calm = replace(failover, number=1, kind="membership", subject=C, winner=None, figures={})

    lanes = draw_lanes(replace(report, incidents=[calm, replace(failover, number=2)]), {}, ListLimits())

    assert [lane.lane.node.node_id for lane in lanes[:3]] == [failover.subject, failover.winner, C]


def test_slots_that_move_one_by_one_stay_one_span() -> None:
    """Only role, master and epoch cut a timeline; the slots are those at its end."""
    tale = failover_tale()
    tale.rows = []
    tale.view(B, B, 0, 5, slots="0-9")
    tale.view(B, B, 5, 8, slots="0-8")
    tale.view(B, B, 8, slots="0-8", epoch=7)

    spans = role_spans(tale.history().views[B, B], ns(20))

    assert [(span.from_ns, span.to_ns, span.epoch, span.slot_count) for span in spans] == [
        (ns(0), ns(8), 2, 9),
        (ns(8), ns(20), 7, 9),
    ]


def printed(width: int = 120, **options: object) -> str:
    """All incidents of the report on a console."""
    stream = io.StringIO()
    report = history_report(**options)  # type: ignore[arg-type]
    print_incidents(report, Console(file=stream, width=width, **ENCODING), html_path="x.html")  # type: ignore[arg-type]
    return stream.getvalue()


ENCODING: dict[str, object] = {"legacy_windows": False, "force_terminal": False}


def test_the_list_puts_findings_first() -> None:
    text = printed()

    assert "both claimed 50 slots" in text
    assert text.index("1 warning") < text.index("Incidents")
    assert "1  22:13:29   10.55 s  failover  :7000 → :7003  100 slots 3.5-4.2 s" in text


def test_the_list_begins_with_its_evidence_and_missing_sources() -> None:
    lines = " ".join(printed(80).split())

    assert "Evidence: 221 messages. Server logs would add causes" in lines
    assert lines.index("Evidence") < lines.index("1 warning")


def test_a_narrow_list_wraps_the_nodes_and_cuts_none() -> None:
    incidents = printed(64).partition("Incidents")[2].partition("Step by step")[0]
    words = incidents.split()

    assert "…" not in incidents
    assert {":7000", ":7003", "failover", "3.5-4.2"} <= set(words)
    assert max(map(len, incidents.splitlines())) <= 64


def test_a_set_up_without_incidents_is_one_line() -> None:
    text = "The cluster was set up in 2.00 s: 4 new nodes"
    report = replace(history_report(quiet=True), warnings=[Caveat.note(Code.SET_UP, text)])

    assert report.verdict == (f"{text}; nothing else was seen in 30.00 s; 240 messages.", "")


def test_the_list_names_doubts_about_the_story() -> None:
    """Warnings of the replay stand with the findings; its notes are on the page."""
    warnings = [Caveat.note(Code.PROFILE, "two versions fit"), Caveat.warning(Code.NODE_TIMEOUT, "15000 ms is assumed")]
    stream = io.StringIO()
    print_incidents(replace(history_report(), warnings=warnings), Console(file=stream, width=120))

    assert "2 warnings" in stream.getvalue()
    assert "15000 ms is assumed" in stream.getvalue()
    assert "two versions fit" not in stream.getvalue()


def test_notes_stand_below_the_incidents() -> None:
    """Everybody who tries it on one host gets one."""
    text = printed()

    assert text.index("1 warning") < text.index("Incidents") < text.index("1 note") < text.index("run on one host")


def test_a_story_counts_time_from_its_start() -> None:
    stream = io.StringIO()
    print_story(history_report().incidents[0], Console(file=stream, width=140))
    text = stream.getvalue()

    assert "+0.000 s" in text
    assert "+4.200 s" in text
    assert "writes lost at least 20 B" in text
    assert "time without service, at most 4.20 s" in " ".join(text.split())
    assert "out of service" not in text  # slots may be served later than their master returns
    assert "#" in text
    assert (clock(-3), moment(1_700_000_000_123_456_789)) == ("-0.003 s", "2023-11-14 22:13:20.123Z")


def test_text_of_nodes_is_escaped_for_the_terminal() -> None:
    """Host names come from the wire: escape sequences are shown, not sent."""
    assert "\x1b" not in printed(hostile=True)
    assert "\\x1b" in printed(hostile=True)


def views() -> list[NodeViewRow]:
    """The beliefs of the failover, with a host name from somewhere else."""
    rows = [row for row in failover_tale().rows if isinstance(row, NodeViewRow)]
    return [row._replace(hostname="\x1b[31mred\nline") if row.node_id == R else row for row in rows]


def test_a_view_is_one_line_a_node_for_any_host_name() -> None:
    """A line break in a name must not make a node."""
    book = address_book(views())
    lines = past_view(views(), B, ns(13), book).lines(headed=True)

    assert book[B] == "10.0.0.1:7001"
    assert len([line for line in lines if not line.startswith("#")]) <= 5
    assert all("\x1b" not in line and "\n" not in line for line in lines)


def test_a_view_between_two_polls_marks_nodes_that_may_have_changed() -> None:
    """The next answer shows a new master; between both nothing tells when."""
    rows, later = views(), row_of(view=R, from_s=14, min_s=12.5)
    view = past_view(rows, B, ns(13), address_book(rows), [later])

    lines = view.lines(headed=False)

    assert lines[0].startswith("# uncertain: 10.0.0.1:7009 changed at some time from ")
    assert lines[0].endswith(f"{write_instant(ns(12.5))} to {write_instant(ns(14))}, the next answer")
    assert [node["id"] for node in view.record()["nodes"] if "changed_by" in node] == [R]


def row_of(*, view: str, from_s: float, min_s: float) -> NodeViewRow:
    """A belief of B that a poll shows."""
    return NodeViewRow(
        B, view, "10.0.0.1", 7009, 17009, "", "master", "", 6, "0-99", True, ns(from_s), None, Cause.POLL, -1, ns(min_s),
        Source.POLL,
    )  # fmt: skip


def test_a_quiet_cluster_is_reported_with_its_polls() -> None:
    quiet = replace(
        history_report(quiet=True), messages=0, polls=12, poll_interval_ms=5000, polled_nodes=1, log_events=0
    )

    assert quiet.verdict[0].endswith(f"; polls each 5 s from 1 of {len(quiet.nodes)} nodes.")
    assert quiet.missing_evidence.startswith("Server logs would add causes")
    assert "met or were forgotten" not in quiet.missing_evidence
    assert "Nodes that met or were forgotten are unknown" in replace(quiet, polls=0, log_events=9).missing_evidence


def test_the_majority_view_is_shown_once_with_differences_of_other_nodes() -> None:
    """Six answers of six lines say the same thing six times."""
    rows = views()
    most, *differing = agreed_views([past_view(rows, node, ns(13), address_book(rows)) for node in (A, B, C)])

    lines = [line for view in (most, *differing) for line in view.lines(headed=True)]
    assert lines[1] == "# 2 of 3 nodes answer so"
    assert lines[-1] == f"{A} flags: master,fail -> master"
    assert [line for line in lines if line.startswith("#")] == [*lines[:2], lines[-2]]
    assert [sorted(other.record()) for other in differing] == [["differences", "first", "nodes", "second"]]


def test_differences_are_shown_by_field() -> None:
    book = address_book(views())

    assert f"{R} flags: slave -> master" in past_difference(views(), B, ns(13), ns(14), book).lines()
    assert past_difference(views(), B, ns(1), ns(2), book).lines()[1:] == ["no difference"]


def test_an_answer_older_than_the_polls_shows_its_age() -> None:
    view = past_view(views(), B, ns(13), address_book(views()))._replace(answered_ns=ns(3))

    assert view.lines(headed=False)[0].startswith(
        "# no answer for 10.00 s: this is the last one, at 2023-11-14T22:13:23"
    )
    assert view.record()["answered_at"].startswith("2023-11-14T22:13:23")


def test_a_headline_about_an_outage_is_the_failover_that_caused_it() -> None:
    """The counts of incidents begin with the gravest kind; the details have the impact."""
    report = history_report()

    assert report.gravest is not None
    assert report.gravest.kind == "outage"
    assert report.verdict[0].startswith("1 failover and 1 outage in 30.00 s: ")
    assert ": Failover: 10.0.0.1:7003 (dddddddd) replaced " in report.verdict[0]
    assert report.verdict[1].startswith("100 slots (0-99) were unreachable for ")


def test_a_long_outage_of_unknown_slots_is_graver_than_a_short_refusal_of_all() -> None:
    incidents = history_report().incidents[0]
    long = replace(
        incidents,
        kind="failover",
        variant="automatic",
        slot_count=None,
        figures={"outage_min_ms": 4400, "outage_ms": 4500},
    )
    short = replace(
        incidents,
        kind="outage",
        variant="whole cluster",
        slot_count=None,
        figures={"outage_min_ms": 46, "outage_ms": 55},
    )
    longer = replace(short, figures={"outage_min_ms": 4000, "outage_ms": 4100})

    assert gravest_of([short, long]) is long
    assert gravest_of([long, longer]) is longer


def test_the_longest_outage_is_that_of_all_incidents() -> None:
    """Not that of the gravest incident, although its slots weigh more."""
    report = history_report()

    assert report.longest_outage is not None
    assert report.longest_outage.figures["outage_ms"] == max(
        incident.figures.get("outage_ms") or 0 for incident in report.incidents
    )
    assert report.longest_outage.kind == "failover"


def test_a_story_names_the_id_of_a_node_once() -> None:
    """Later steps have the address alone."""
    stream = io.StringIO()
    print_story(history_report().incidents[0], Console(file=stream, width=140))
    story = " ".join(stream.getvalue().partition("What happened")[2].split())

    assert story.count("10.0.0.1:7000 (aaaaaaaa)") == 1
    assert story.count("10.0.0.1:7000") > 2


def test_a_loss_of_at_least_nothing_is_no_figure() -> None:
    """Offsets that matched when the old master was last heard leave the loss unknown; those of all it sent say that there was none."""
    incidents = history_report().incidents[0]
    unknown = replace(incidents, figures=incidents.figures | {"offset_gap_bytes": 0, "unheard_ms": 4})
    none = replace(incidents, figures=incidents.figures | {"offset_gap_bytes": 0, "unheard_ms": 0})

    assert "offset_gap_bytes" not in unknown.known_figures
    assert none.known_figures["offset_gap_bytes"] == 0
