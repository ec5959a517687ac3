"""Sources become notebooks that a rebuild does not change, and whose failures are seen."""

import nbformat
import pytest
from nbclient.exceptions import CellExecutionError
from nbformat.v4 import new_code_cell, new_output

from tools import build_lessons, lessons, run_lessons

SOURCE = """# %% [markdown]
# # A tiny lesson
#
# Does it build?
#
# One minute.

# %%
print(sum(range(5)))

# %%
print(sum(range(5)))

# %% tags=["nbval-ignore-output"]
import ipywidgets
from tqdm.auto import tqdm

for _ in tqdm(range(3)):
    pass
ipywidgets.IntSlider()
"""


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "notebooks" / "src" / "01_tiny.py"
    path.parent.mkdir(parents=True)
    path.write_text(SOURCE)
    return path


@pytest.fixture
def quick_setup(monkeypatch):
    monkeypatch.setattr(lessons, "setup_code", lambda: "from course_utils.setup import hide_progress_bars\nhide_progress_bars()")


def test_render_adds_badges_and_setup(source):
    notebook = lessons.render(source)
    nbformat.validate(notebook)
    opening, setup = notebook.cells[:2]
    assert opening.source.startswith("# A tiny lesson\n\nDoes it build?\n\n[![Open in Binder]")
    assert "blob/main/notebooks/01_tiny.ipynb" in opening.source
    assert opening.source.endswith("\n\nOne minute.")
    assert setup.source == lessons.setup_code()
    assert "{{" not in setup.source


def test_render_keeps_tags_and_gives_stable_unique_ids(source):
    first, second = lessons.render(source), lessons.render(source)
    assert first == second
    assert first.cells[-1].metadata.tags == ["nbval-ignore-output"]
    assert len({cell.id for cell in first.cells}) == len(first.cells) == 5


def test_ids_of_other_cells_survive_an_insertion(source):
    before = {cell.id for cell in lessons.render(source).cells}
    source.write_text(SOURCE.replace("# One minute.\n", "# One minute.\n\n# %%\nprint('new')\n"))
    assert len(before - {cell.id for cell in lessons.render(source).cells}) == 0


@pytest.mark.parametrize("text", ["", "# %%\n1\n", "# %% [markdown]\n# # Title\n#\n# No question.\n"])
def test_render_refuses_a_bad_opening(source, text):
    source.write_text(text)
    with pytest.raises(ValueError, match="first cell"):
        lessons.render(source)


def test_build_twice_gives_the_same_bytes(source, quick_setup):
    target = build_lessons.build(source)
    first = target.read_bytes()
    assert build_lessons.build(source).read_bytes() == first
    notebook = nbformat.read(target, as_version=4)
    assert notebook.metadata == lessons.METADATA
    assert notebook.cells[2].outputs[0].text == "10\n"
    (widget,) = notebook.cells[-1].outputs
    assert widget.data["text/plain"] == build_lessons.WIDGET_WORDS
    assert build_lessons.WIDGET not in first.decode()


def test_a_failing_cell_is_shown_and_keeps_the_old_notebook(source, quick_setup):
    target = source.parent.parent / "01_tiny.ipynb"
    target.write_text("old")
    source.write_text(SOURCE + "\n# %%\n1 / 0\n")
    with pytest.raises(CellExecutionError, match="1 / 0"):
        build_lessons.build(source)
    assert target.read_text() == "old"


def test_an_error_inside_a_widget_is_an_error(source, quick_setup):
    source.write_text(SOURCE + "\n# %%\nipywidgets.interact(lambda k: 1 / k, k=ipywidgets.fixed(0));\n")
    with pytest.raises(CellExecutionError, match="ZeroDivisionError"):
        build_lessons.build(source)


def test_tidy_cuts_the_courses_folder(tmp_path):
    cell = new_code_cell("x", outputs=[new_output("stream", text=f"{tmp_path}/data/a.csv in {tmp_path}\n")])
    build_lessons.tidy(cell, tmp_path)
    assert cell.outputs[0].text == "course/data/a.csv in course\n"


def test_sources_by_name(source):
    folder = source.parent.parent
    (source.parent / "02_other.py").write_text(SOURCE)
    (source.parent / "_setup.py").write_text("")
    assert [path.stem for path in lessons.sources(folder=folder)] == ["01_tiny", "02_other"]
    assert [path.stem for path in lessons.sources(["02"], folder)] == ["02_other"]
    with pytest.raises(SystemExit, match="no lesson starts with '07'"):
        lessons.sources(["07"], folder)


def test_lesson_table_replaces_the_old_one(source):
    readme = lessons.with_lesson_table("a\n<!-- lessons -->\nold\n<!-- /lessons -->\nb", source.parent.parent)
    assert "old" not in readme
    assert "| [01 · A tiny lesson](notebooks/01_tiny.ipynb) | Does it build? |" in readme
    assert readme.startswith("a\n") and readme.endswith("\nb")


def test_measured_run_sees_memory_and_failure(source, quick_setup):
    grab = "\n# %%\nimport time\nx = bytearray(b'1') * 300_000_000\ntime.sleep(0.6)\n1 / 0\n"
    source.write_text(SOURCE + grab)
    notebook = source.parent.parent / "01_tiny.ipynb"
    nbformat.write(lessons.render(source), notebook)
    result = run_lessons.measure(notebook)
    assert "ZeroDivisionError" in result.error
    assert 300 < result.peak_mb < 1000
    assert result.verdict == "FAILED"


@pytest.mark.parametrize(
    ("seconds", "megabytes", "verdict"), [(119, 1499, "passed"), (121, 100, "OVER BUDGET"), (1, 1501, "OVER BUDGET")]
)
def test_budget(seconds, megabytes, verdict):
    assert run_lessons.Result("x", seconds, megabytes).verdict == verdict
