"""Every lesson of the course is fit to publish, and in step with its source."""

import subprocess
import sys

import pytest

from tools import lessons
from tools.lint_lessons import differences, problems

SOURCES = lessons.sources()
each_lesson = pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)


@each_lesson
def test_lesson_has_no_problem(source):
    assert problems(lessons.read(lessons.notebook_path(source))) == []


@each_lesson
def test_notebook_is_in_step_with_its_source(source):
    assert differences(lessons.read(lessons.notebook_path(source)), lessons.render(source)) == []


def test_every_notebook_has_a_source():
    assert {path.stem for path in lessons.NOTEBOOKS.glob("*.ipynb")} == {source.stem for source in SOURCES}


def test_readme_lists_the_lessons():
    readme = (lessons.ROOT / "README.md").read_text(encoding="utf-8")
    assert readme == lessons.with_lesson_table(readme)


def test_one_address_everywhere():
    for name in ("README.md", "CITATION.cff"):
        assert lessons.repository() in (lessons.ROOT / name).read_text(encoding="utf-8")


def test_contributing_names_every_section_and_tag():
    text = (lessons.ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert [s for s in lessons.SECTIONS if f"`## {s}`" not in text] == []
    assert [t for t in lessons.TAGS if t != "setup" and f"| `{t}` |" not in text] == []


def spelling(*paths) -> str:
    command = [sys.executable, "-m", "codespell_lib", *map(str, paths)]
    return subprocess.run(command, cwd=lessons.ROOT, capture_output=True, text=True, check=False).stdout


def test_spelling():
    prose = [*lessons.ROOT.glob("*.md"), *lessons.ROOT.glob("docs/**/*.md"), *lessons.ROOT.glob("docs/*.bib"), *SOURCES]
    assert spelling(*prose) == ""


def test_spelling_sees_a_misspelt_word(tmp_path):
    path = tmp_path / "prose.md"
    path.write_text("The attention " + "wieghts" + " are shown.\n")
    assert "wieghts" in spelling(path)
