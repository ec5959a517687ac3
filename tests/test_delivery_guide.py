"""The instructor guide speaks of the course as it is: lessons, commands and files that exist."""

import argparse
import re
import shlex

from course_utils.exercises import grading
from tools import course, lessons

GUIDE = (course.ROOT / "docs" / "instructors.md").read_text(encoding="utf-8")
ROWS = dict(re.findall(r"^\| (\d\d) ([^|]+?) \|", GUIDE, re.MULTILINE))


def commands() -> list[list[str]]:
    """Every command of the guide's code blocks, as words."""
    blocks = re.findall(r"^```\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)
    lines = [line.strip() for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    return [shlex.split(line) for line in lines if line]


def test_every_lesson_has_its_row():
    """A new lesson needs a row in docs/instructors.md: its goal, and what students believe before."""
    assert {source.stem[:2] for source in lessons.sources()} - set(ROWS) == set()


def test_rows_carry_the_lessons_titles():
    for source in lessons.sources():
        title, _ = lessons.title_and_question(lessons.render(source).cells[0].source)
        assert ROWS[source.stem[:2]] == title, f"docs/instructors.md calls lesson {source.stem[:2]} {ROWS[source.stem[:2]]!r}"


def test_each_plan_names_lessons_of_the_table():
    plans = re.split(r"^### ", GUIDE, flags=re.MULTILINE)[1:]
    assert [plan.partition(" weeks")[0] for plan in plans] == ["Two", "Five", "Ten"]
    for plan in plans:
        named = re.findall(r"\b\d\d\b(?! minutes)", "\n".join(re.findall(r"^\| \d+ \|([^|]*)\|", plan, re.MULTILINE)))
        assert len(named) >= 8 and set(named) <= set(ROWS)
        assert len(named) == len(set(named)), "a lesson comes twice"


def test_grading_commands_parse():
    parser = argparse.ArgumentParser()
    grading.add_arguments(parser)
    grade = [words[words.index("grade") + 1 :] for words in commands() if "course_utils" in words]
    assert len(grade) == 2
    for words in grade:
        assert parser.parse_args(words).lesson == "08"


def test_course_commands_and_links_exist():
    called = [words for words in commands() if "tools/course.py" in words]
    assert called and all(words[2] in course.COMMANDS for words in called)
    for target in re.findall(r"\]\(([^)]+)\)", GUIDE):
        assert (course.ROOT / "docs" / target).is_file(), target


def test_strangers_notebooks_get_a_container_without_network():
    (run,) = [words for words in commands() if "docker" in words]
    assert run[run.index("--network") + 1] == "none"
    assert {"--memory", "--cpus", "--pids-limit", "--cap-drop"} <= set(run)
