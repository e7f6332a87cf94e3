"""A simulation on a terminal: what the runs have in common, and the shards that got no new master."""

from __future__ import annotations

from typing import Final

from rich.console import Console

from slotscope.reports.ink import Ink
from slotscope.reports.simulation.report import FIGURE_WORDS, SimulationReport, figure_text, unknown_text
from slotscope.runtime import text

CASES_SHOWN: Final = 12
STUCK_SHOWN: Final = 8


def render_simulation_terminal(report: SimulationReport, console: Console, *, html_path: str | None = None) -> None:
    """Print *report* on *console*; *html_path* is where the full report was written, if it was."""
    ink = Ink(console)
    ink.title(text.printable(report.title, 200), f" · {text.plural(report.runs, 'run')}")
    ink.line(ink.words(text.printable(report.verdict, 600)))
    ink.note(f"{report.start}; {report.fixed()}")
    for case in report.cases[:CASES_SHOWN]:
        ink.heading(report.words(case))
        for name, words in FIGURE_WORDS.items():
            spread = case.spreads[name]
            if not spread.known:
                ink.line(ink.words(f"  {words}: {unknown_text(name, spread.runs)}"))
                continue
            share = "" if spread.known == spread.runs else f" (in {spread.known} of {spread.runs} runs)"
            half, nine, worst = (figure_text(name, value) for value in (spread.p50, spread.p90, spread.worst))
            ink.line(ink.words(f"  {words}: half {half}, nine of ten {nine}, worst {worst}{share}"))
    if len(report.cases) > CASES_SHOWN:
        ink.note(f"  … and {len(report.cases) - CASES_SHOWN} cases more")
    if report.stuck:
        ink.heading("Without a new master")
        for stuck in report.stuck[:STUCK_SHOWN]:
            name = text.printable(stuck.master, 60)
            words = f"in {text.plural(stuck.runs, 'run')} of case {stuck.case}: {stuck.hindrance}"
            ink.line(ink.words(f"  {name}: {words}"))
    if report.violations:
        broken = text.plural(report.violations, "invariant")
        ink.line(ink.words(f"{broken} broken: this is a defect of the simulator", "red"))
    ink.page("Distributions, and what is modelled", html_path)
