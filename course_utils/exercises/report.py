"""What a student gets back: one HTML page."""

import html
from pathlib import Path
from typing import Protocol

_ICONS = {"right": "✔", "wrong": "✘"}

_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ font: 1rem/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1b1b1b }}
html {{ background: #fff }}
table {{ border-collapse: collapse; width: 100% }}
th, td {{ text-align: left; vertical-align: top; padding: .4rem .6rem }}
th, td {{ border-bottom: 1px solid #c4c7c5 }}
td:nth-child(2) {{ white-space: nowrap }}
td:last-child, li, h1 {{ overflow-wrap: anywhere }}
</style></head><body><main>
<h1>{title}</h1>
<p>{solved} of {total} exercises solved. {status}</p>
{table}{errors}
</main></body></html>
"""

_STATUS = {
    "finished": "The notebook ran from top to bottom.",
    "errors": "Some cells raised an exception; the others ran.",
    "time": "The notebook was stopped: it took too long.",
    "memory": "The notebook was stopped: it used too much memory.",
    "output": "The notebook was stopped: it printed too much.",
    "ended early": "Python ended before the notebook did.",
    "unreadable": "The file is not a notebook.",
    "lesson unknown": "It is not clear which lesson this is.",
}


class Run(Protocol):
    """What the report needs of a graded notebook."""

    student: str
    lesson: str
    status: str
    solved: int
    exercises: list
    outcomes: dict[str, str]
    messages: dict[str, str]
    errors: list[str]


def write_report(run: Run, path: Path) -> None:
    """Writes the page of one notebook; everything that comes from the student is escaped."""
    title = f"{run.student}: lesson {run.lesson}" if run.lesson else run.student
    rows = "".join(
        _row(exercise.title, run.outcomes[exercise.key], run.messages.get(exercise.key, "")) for exercise in run.exercises
    )
    head = "<thead><tr><th scope='col'>Exercise</th><th scope='col'>Result</th><th scope='col'>Why</th></tr></thead>"
    items = "".join(f"<li>{html.escape(error)}</li>" for error in run.errors)
    page = _PAGE.format(
        title=html.escape(title),
        solved=run.solved,
        total=len(run.exercises),
        status=html.escape(_STATUS[run.status]),
        table=f"<table>{head}<tbody>{rows}</tbody></table>" if rows else "",
        errors=f"<h2>What went wrong in the run</h2><ul>{items}</ul>" if items else "",
    )
    path.write_text(page, encoding="utf-8")


def _row(title: str, outcome: str, message: str) -> str:
    icon = f"<span aria-hidden='true'>{_ICONS.get(outcome, '○')}</span>"
    return (
        f"<tr><th scope='row'>{html.escape(title)}</th><td>{icon} {html.escape(outcome)}</td><td>{html.escape(message)}</td></tr>"
    )
