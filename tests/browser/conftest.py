"""JupyterLab on this machine's loopback and a Chromium that reaches nothing else: what a student sees, without network.

Fixtures: `jupyter` (a server, once a session) and `lab` (a page; `lab.open(cells)` makes a notebook, opens it and runs it).
"""

import importlib.util
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import nbformat
import pytest

CHROMIUM = (
    os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
LOOPBACK_ONLY = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    LOOPBACK_ONLY,
]
KERNEL_IS_READY = "window.jupyterapp?.shell?.currentWidget?.sessionContext?.session?.kernel?.connectionStatus === 'connected'"
QUIET = {"@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False}}
ERRORS = "[data-mime-type='application/vnd.jupyter.stderr'], [data-mime-type='application/vnd.jupyter.error']"
END_KERNELS = "window.jupyterapp?.serviceManager.sessions.shutdownAll()"
RUN_ALL = "window.jupyterapp.commands.execute('notebook:run-all-cells')"


@dataclass(frozen=True)
class Server:
    """A JupyterLab of its own: where it listens, its token, the folder of its notebooks, its log."""

    url: str
    token: str
    folder: Path
    log: Path


@pytest.fixture(scope="session")
def chromium():
    """The path of Chromium; without it or playwright the test is skipped, in CI it fails."""
    missing = None if CHROMIUM else "no Chromium: install it or set CHROMIUM to its path"
    if not importlib.util.find_spec("playwright"):
        missing = "the Python package playwright is not installed"
    if missing and os.environ.get("CI") == "true":
        pytest.fail(f"CI must run the browser tests: {missing}")
    if missing:
        pytest.skip(missing)
    return CHROMIUM


@pytest.fixture(scope="module")
def browser(chromium):
    """A headless Chromium without network. It ends with its module: playwright's event loop would disturb other tests' own."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield running
        running.close()


@pytest.fixture(scope="session")
def jupyter(chromium, tmp_path_factory):
    """A running JupyterLab with temporary configuration; its kernels import the package from this checkout."""
    home, folder = tmp_path_factory.mktemp("jupyter"), tmp_path_factory.mktemp("notebooks")
    token, port, log = secrets.token_hex(24), _free_port(), home / "server.log"
    settings = {
        "port": port,
        "port_retries": 0,
        "open_browser": False,
        "root_dir": folder,
        "allow_root": True,
        "answer_yes": True,
    }
    arguments = [f"--ServerApp.{name}={value}" for name, value in settings.items()]
    arguments += ["--ServerApp.ip=127.0.0.1", "--LabApp.expose_app_in_browser=True"]
    folders = {name: str(home / name) for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")}
    environment = {**os.environ, **folders, "JUPYTER_TOKEN": token, "PYTHONPATH": str(Path(__file__).parents[2])}
    (home / "JUPYTER_CONFIG_DIR" / "labconfig").mkdir(parents=True)
    (home / "JUPYTER_CONFIG_DIR" / "labconfig" / "default_setting_overrides.json").write_text(json.dumps(QUIET))
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "jupyterlab", *arguments], env=environment, stdout=output, stderr=subprocess.STDOUT
        )
    server = Server(f"http://127.0.0.1:{port}", token, folder, log)
    try:
        _wait_until_it_answers(server, process)
        yield server
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()


@pytest.fixture
def lab(jupyter, browser, tmp_path):
    """A fresh page in JupyterLab; its kernels end with it."""
    context = browser.new_context(viewport={"width": 1300, "height": 1000})
    context.set_default_timeout(180_000)
    made = Lab(jupyter, context.new_page(), tmp_path)
    yield made
    made.page.evaluate(END_KERNELS)
    context.close()


class Lab:
    """A page that opens notebooks.

    Attributes:
        page: the playwright page; `page.locator(...)` finds what a cell displays.
    """

    def __init__(self, server: Server, page, folder: Path):
        self.page, self._server, self._folder = page, server, folder

    def open(self, *cells: str, name: str = "test") -> None:
        """Make a notebook of these code cells, open it and run it to its end; an error or a line on stderr fails the test."""
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
        self.open_notebook(notebook, name)

    def open_notebook(self, notebook: nbformat.NotebookNode, name: str) -> None:
        """As `open`, for a notebook that exists."""
        notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
        nbformat.write(notebook, self._server.folder / f"{name}.ipynb")
        self.page.goto(f"{self._server.url}/doc/tree/{name}.ipynb?reset&token={self._server.token}")
        self.page.wait_for_function(KERNEL_IS_READY)
        self.page.evaluate(RUN_ALL)
        error = self.page.locator(ERRORS)
        assert not error.count(), error.first.inner_text()

    def screenshot(self, name: str) -> Path:
        """A picture of the page, in $SCREENSHOTS where set, so that a person can look at it."""
        path = Path(os.environ.get("SCREENSHOTS", self._folder)) / f"{name}.png"
        self.page.screenshot(path=path)
        return path


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def _wait_until_it_answers(server: Server, process: subprocess.Popen, seconds: float = 180) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            urllib.request.urlopen(f"{server.url}/api/status?token={server.token}", timeout=2).close()
            return
        except OSError:
            time.sleep(0.2)
    pytest.fail(f"JupyterLab did not start:\n{server.log.read_text()[-2000:]}")
