"""The website: everything is on it, nothing on it needs another server, and every picture has words."""

import re
from html.parser import HTMLParser

import pytest

from tools import bibliography, lessons, site
from tools.lint_lessons import alt_texts

LESSONS = [source.stem for source in lessons.sources()]


def pages(website):
    return {path.relative_to(website).as_posix(): path.read_text(encoding="utf-8") for path in website.rglob("*.html")}


def resources(page: str) -> list[str]:
    """Addresses that a browser fetches by itself when it shows the page, those inside an iframe's own document included."""
    found: list[str] = []

    class Resources(HTMLParser):
        def handle_starttag(self, tag, attrs):
            given = dict(attrs)
            if tag in ("script", "img", "iframe", "source", "video", "audio", "embed") and given.get("src"):
                found.append(given["src"])
            if tag == "link" and given.get("rel") in ("stylesheet", "icon", "preload", "preconnect", "modulepreload"):
                found.append(given["href"])
            if given.get("srcdoc"):
                found.extend(resources(given["srcdoc"]))

    Resources().feed(page)
    return found


def test_every_lesson_every_room_and_every_page_of_docs_is_there(website):
    there = pages(website)
    names = [f"notebooks/{name}" for name in LESSONS] + [f"api_{room}" for room in site.ROOMS] + ["search", "genindex"]
    names += [path.stem for path in site.DOCS.glob("*.md")]
    assert [name for name in names if f"{name}.html" not in there] == []
    assert [name for name in LESSONS if f'href="notebooks/{name}.html"' not in there["index.html"]] == []


def test_pages_written_by_hand_name_every_room_and_every_page():
    overview, index = ((site.DOCS / name).read_text(encoding="utf-8") for name in ("api.md", "index.md"))
    assert [room for room in site.ROOMS if f"(api_{room}.md)" not in overview] == []
    assert [path.name for path in site.DOCS.glob("*.md") if path.stem != "index" and f"({path.name})" not in index] == []


def test_every_image_has_alt_text(website):
    found = {name: alt_texts(text) for name, text in pages(website).items()}
    assert sum(map(len, found.values())) > 5
    assert [name for name, alts in found.items() if not all(alt.strip() for alt in alts)] == []


def test_no_page_fetches_anything_from_elsewhere(website):
    there = pages(website)
    assert all(resources(text) for name, text in there.items() if name.startswith("notebooks/"))
    remote = {name: [url for url in resources(text) if re.match(r"(https?:)?//", url)] for name, text in there.items()}
    assert {name: urls for name, urls in remote.items() if urls} == {}
    styles = [path for path in website.rglob("*.css") if re.search(r"(url\(|@import )['\"]?(https?:)?//", path.read_text("utf-8"))]
    assert styles == []


def test_lessons_are_shown_as_executed(website):
    page = (website / "notebooks" / "08_adversarial_attention.html").read_text(encoding="utf-8")
    assert page.count("cell_output") > 10
    assert "Open in Binder</a>" in page and "mybinder.org/badge" not in page


def test_public_functions_are_in_the_reference_and_solutions_are_not(website):
    there = pages(website)
    assert 'id="course_utils.analysis.permutation.permute"' in there["api_analysis.html"]
    assert 'id="course_utils.models.output.AttentionOutput.probabilities"' in there["api_models.html"]
    assert "lesson_08" not in there["api_exercises.html"]
    assert "kendalltau" not in there["api_analysis.html"]  # imported, not ours


def test_what_is_no_page_any_more_is_removed_and_the_rest_keeps_its_time(tmp_path):
    site.gather(tmp_path)
    old, kept = tmp_path / "notebooks" / "98_gone.ipynb", tmp_path / "index.md"
    old.write_text("{}")
    before = kept.stat().st_mtime_ns
    site.gather(tmp_path)
    assert not old.exists() and kept.stat().st_mtime_ns == before


def test_a_later_lesson_appears_by_itself():
    stored = {name: lessons.read(lessons.NOTEBOOKS / f"{name}.ipynb") for name in LESSONS[:1]}
    stored["97_later"] = stored[LESSONS[0]]
    assert "notebooks/97_later" in site.lesson_lists(stored)


LINKS = {
    ("[a](../notebooks/08_x.ipynb#bound)", ""): "[a](notebooks/08_x.ipynb#bound)",
    ("[a](../docs/glossary.md)", "../"): "[a](../glossary.md)",
    ("[a](../data/sources.toml)", "../"): f"[a]({lessons.repository()}/blob/main/data/sources.toml)",
    ("[a](09_y.ipynb) [b](https://example.org)", "../"): "[a](09_y.ipynb) [b](https://example.org)",
}


@pytest.mark.parametrize(("given", "wanted"), LINKS.items(), ids=[text for text, _ in LINKS])
def test_links_of_the_repository_lead_somewhere_on_the_site(given, wanted):
    assert site.with_site_links(*given) == wanted


# --- glossary


def glossary() -> list[re.Match]:
    return list(site._TERM.finditer((site.DOCS / "glossary.md").read_text(encoding="utf-8")))


def test_every_term_has_a_chinese_name_and_one_sentence():
    entries = glossary()
    assert len(entries) >= 60
    shape = re.compile(r'  <span lang="zh">[^<]*[\u4e00-\u9fff][^<]*</span>\. [A-Z\[][^\n]*\.')
    assert [entry["term"] for entry in entries if not shape.fullmatch(entry["meaning"])] == []
    assert [entry["term"] for entry in entries if re.search(r"\. [A-Z]", entry["meaning"].partition("</span>.")[2][1:])] == []
    terms = [entry["term"].lower() for entry in entries]
    assert len(set(terms)) == len(terms)


def test_a_term_is_traced_to_the_first_lesson_that_uses_it():
    prose = {"00_a": "weighted by attention", "01_b": "two probes and a [cls] token", "02_c": "a probe"}
    assert site.first_lesson(["probing", "probe"], prose) == "01_b"
    assert site.first_lesson(["[CLS]"], prose) == "01_b"
    assert site.first_lesson(["weight"], prose) is None


def test_the_glossary_links_to_lessons(website):
    page = (website / "glossary.html").read_text(encoding="utf-8")
    entry = page[page.index('id="term-context-vector"') :][:600]
    assert 'href="notebooks/01_what_attention_computes.html"' in entry


# --- references


def test_every_work_is_complete_and_has_one_key():
    works = bibliography.read()
    text = bibliography.BIBLIOGRAPHY.read_text(encoding="utf-8")
    assert len(works) == text.count("\n@") + text.startswith("@")
    assert len({work.key for work in works}) == len(works)
    for work in works:
        assert {"author", "title", "year"} <= work.fields.keys(), work.key
        assert any(name in work.fields for name in bibliography.VENUES), work.key
        assert work.key.startswith(bibliography.plain(work.authors[0].partition(",")[0]).replace("-", "") + work.fields["year"])


def test_every_work_that_the_package_cites_is_known():
    works = bibliography.read()
    sources = site.PACKAGE.rglob("*.py")
    found = {path.name: bibliography.unknown(path.read_text(encoding="utf-8"), works) for path in sources}
    assert {name: missing for name, missing in found.items() if missing} == {}


CITATIONS = {
    "Jain & Wallace (2019) ask": [("jain", "2019")],
    "as Jain and Wallace (2019, section 4) ask": [("jain", "2019")],
    "Jain & Wallace's (2019) test": [("jain", "2019")],
    "Clark et al. (2019)": [("clark", "2019")],
    "words (Bahdanau et al. 2015) and": [("bahdanau", "2015")],
    "across a line (Kobayashi et\nal. 2020)": [("kobayashi", "2020")],
    "the view (Vig 2019) takes": [("vig", "2019")],
    "Efron (1979) draws": [("efron", "1979")],
    "(see Vig 2019; Michel et al. 2019, table 1)": [("vig", "2019"), ("michel", "2019")],
    "(Rocktäschel et al. 2016)": [("rocktaschel", "2016")],
    "Doshi-Velez & Kim (2017)": [("doshi-velez", "2017")],
    "- Jain, S. & Wallace, B. C. (2019). Attention is not Explanation.": [("jain", "2019")],
    "- van der Maaten, L. & Hinton, G. (2008). Visualizing": [("maaten", "2008")],
    "- Clark, K., Khandelwal, U., Levy, O. &\n  Manning, C. D. (2019). What": [("clark", "2019")],
    "In 2019 there were 2000 sentences (about 1950 of them short).": [],
    "`Vig (2019)` is code": [],
}


@pytest.mark.parametrize(("text", "found"), CITATIONS.items(), ids=CITATIONS)
def test_citations_are_found(text, found):
    assert list(bibliography.citations(text)) == found


def test_two_works_of_one_author_and_year_are_told_apart():
    works = {work.key: work for work in bibliography.read()}
    text = (
        "- Vig, J. & Belinkov, Y. (2019). Analyzing the Structure of Attention in a Transformer\n  Language Model. *BlackboxNLP*."
    )
    assert bibliography.lists(text, works["vig2019analyzing"])
    assert not bibliography.lists(text, works["vig2019multiscale"])
