"""The website in a real browser that reaches nothing but this machine: formulas, search, accessibility, small screens."""

import http.server
import os
import threading
from functools import partial
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe

SIZES = {"phone": {"width": 390, "height": 844}, "desk": {"width": 1400, "height": 900}}
LESSON = "notebooks/01_what_attention_computes"
PAGES = ("index", LESSON, "glossary", "api_analysis", "reproduction")


@pytest.fixture(scope="module")
def address(website):
    """Where the built site is served."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=website)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(params=[(scheme, size) for scheme in ("light", "dark") for size in SIZES], ids="-".join)
def page(request, browser):
    """A page of one colour scheme and size."""
    scheme, size = request.param
    context = browser.new_context(viewport=SIZES[size], color_scheme=scheme, reduced_motion="reduce")
    made = context.new_page()
    made.problems, made.scheme, made.name = [], scheme, f"{scheme}_{size}"
    made.on("requestfailed", lambda asked: made.problems.append(asked.url))
    made.on("pageerror", lambda error: made.problems.append(str(error)))
    yield made
    context.close()


def visit(page, address, name):
    page.goto(f"{address}/{name}.html")
    page.evaluate("window.MathJax?.startup?.promise")
    if folder := os.environ.get("SCREENSHOTS"):
        page.screenshot(path=Path(folder) / f"site_{Path(name).name}_{page.name}.png")


def test_pages_are_complete_and_fit_the_screen(page, address):
    for name in PAGES:
        visit(page, address, name)
        assert page.locator("html").get_attribute("data-theme") == page.scheme
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, f"{name} is wider than the screen"
    assert page.problems == []


@pytest.mark.parametrize("page", [("light", "desk"), ("dark", "phone")], indirect=True, ids="-".join)
def test_pages_are_accessible(page, address):
    """Colours depend on the scheme alone and what there is on the size alone, so that two of the four will do."""
    for name in PAGES:
        visit(page, address, name)
        serious = [
            f"{item['id']}: {node['html'][:160]}"
            for item in Axe().run(page).response["violations"]
            if item["impact"] in ("critical", "serious")
            for node in item["nodes"]
        ]
        assert serious == [], name


@pytest.fixture
def desk(browser):
    context = browser.new_context(viewport=SIZES["desk"])
    made = context.new_page()
    made.name = "desk"
    yield made
    context.close()


def test_formulas_are_drawn_without_network(desk, address):
    visit(desk, address, LESSON)
    desk.wait_for_selector("mjx-container svg")
    assert desk.locator("mjx-container svg").count() == desk.locator(".math").count() > 10
    assert desk.locator("mjx-merror, [data-mjx-error]").count() == 0


def test_search_finds_a_lesson_and_a_chinese_term(desk, address):
    for words, found in (("rollout", "Attention flow"), ("注意力权重", "Glossary")):
        desk.goto(f"{address}/search.html?q={words}")
        desk.locator("#search-results li a", has_text=found).first.wait_for()
