"""The website: pages gathered from docs/, notebooks/ and the package's docstrings, then built by Sphinx.

`make site` builds it into build/site/html. Lessons are shown as they were executed; nothing is run and nothing is fetched.
A lesson, a module or a page of docs/ that is added later appears by itself.
"""

import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from tools import bibliography, lessons

DOCS = lessons.ROOT / "docs"
PACKAGE = lessons.ROOT / "course_utils"
TARGET = lessons.ROOT / "build" / "site"
PARTS = {
    "Part 0 · Start": range(0, 1),
    "Part 1 · Seeing attention": range(1, 5),
    "Part 2 · Is attention explanation?": range(5, 11),
    "Part 3 · What heads know, and which matter": range(11, 16),
    "Part 4 · Using it": range(16, 100),
}
ROOMS = ("data", "models", "analysis", "show", "exercises", "reproduce")
_BADGE = re.compile(r"\[!\[([^\]]+)\]\([^)]+\)\]")
_TERM = re.compile(r"^(?P<term>\S[^|\n]*?)(?: \| (?P<forms>.+))?\n(?P<meaning>  .+)$", re.MULTILINE)


def main(arguments: list[str]) -> int:
    target = Path(arguments[0]) if arguments else TARGET
    if status := build(target):
        return status
    if unused := unused_terms():
        print(f"terms of the glossary that no lesson uses yet: {', '.join(unused)}")
    print(f"open {target / 'html' / 'index.html'}")
    return 0


def build(target: Path) -> int:
    """Sphinx's exit status; a warning is an error. The pages lie in `target`/html."""
    source = target / "source"
    gather(source)
    folders = ("-c", str(DOCS), "-d", str(target / "doctrees"), str(source), str(target / "html"))
    return subprocess.run([sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-j", "2", *folders], check=False).returncode


def gather(source: Path) -> None:
    """Write every page that Sphinx reads, and remove what is no page any more; what did not change keeps its time."""
    stored = stored_lessons()
    fills: dict[str, Callable[[], str]] = {
        "lessons": lambda: lesson_lists(stored),
        "pages": lambda: toctree(["glossary", "references", *optional_pages()], "Beside the lessons"),
        "package": lambda: toctree(["Overview <api>", *(f"{room} <api_{room}>" for room in ROOMS)], "The package"),
        "references": lambda: references(stored),
    }
    pages = {f"notebooks/{name}.ipynb": nbformat.writes(lesson_page(notebook)) for name, notebook in stored.items()}
    pages |= {f"api_{room}.md": api_page(room) for room in ROOMS}
    for path in DOCS.glob("*.md"):
        text = with_site_links(path.read_text(encoding="utf-8").replace("{{repository}}", lessons.repository()), "")
        text = re.sub(r"^<!-- (\w+) -->$", lambda mark: fills[mark[1]](), text, flags=re.MULTILINE)
        pages[path.name] = with_first_lessons(text, stored) if path.stem == "glossary" else text
    for path in source.rglob("*.*"):
        if path.relative_to(source).as_posix() not in pages:
            path.unlink()
    for name, text in pages.items():
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    shutil.copytree(DOCS / "figures", source / "figures", dirs_exist_ok=True)


def optional_pages() -> list[str]:
    """Pages of docs/ that no other page lists, in alphabetical order."""
    return sorted({path.stem for path in DOCS.glob("*.md")} - {"index", "glossary", "api", "references"})


def with_site_links(text: str, up: str) -> str:
    """Links to lessons and to docs/ lead to their pages, other links to files of the repository lead there.

    Args:
        text: a page that lies in docs/ or notebooks/.
        up: the way from its place on the site to the site's top: "" or "../".
    """

    def target(link: re.Match) -> str:
        path = link[1]
        if re.match(r"notebooks/\w+\.ipynb|docs/\w+\.md", path):
            return f"]({up}{path.removeprefix('docs/')}"
        return f"]({lessons.repository()}/blob/main/{path}"

    return re.sub(r"\]\(\.\./([^)\s]+)", target, text)


def toctree(entries: list[str], caption: str) -> str:
    """Entries of the sidebar; the page itself shows nothing."""
    return "\n".join(["```{toctree}", f":caption: {caption}", ":hidden:", *entries, "```"])


# --- lessons


def stored_lessons() -> dict[str, NotebookNode]:
    """The executed lessons by name, in order."""
    return {path.stem: lessons.read(path) for path in sorted(lessons.NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))}


def lesson_page(notebook: NotebookNode) -> NotebookNode:
    """The lesson as the site shows it: badges are plain links, since their pictures lie on other servers; the setup is folded."""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = with_site_links(_BADGE.sub(r"[\1]", cell.source), "../")
        elif "setup" in cell.metadata.get("tags", ()):
            cell.metadata.tags.append("hide-input")
    return notebook


def lesson_lists(stored: dict[str, NotebookNode]) -> str:
    """For each part of the course its lessons with their questions, and the entries of the sidebar."""
    blocks = []
    for part, numbers in PARTS.items():
        names = [name for name in stored if int(name[:2]) in numbers]
        if not names:
            continue
        heads = {name: lessons.title_and_question(stored[name].cells[0].source) for name in names}
        lines = [f"- [{name[:2]} · {title}](notebooks/{name}.ipynb)  \n  {question}" for name, (title, question) in heads.items()]
        entries = [f"{name[:2]} · {title} <notebooks/{name}>" for name, (title, _) in heads.items()]
        blocks += [f"### {part}", "\n".join(lines), toctree(entries, part)]
    return "\n\n".join(blocks)


# --- glossary and references


def with_first_lessons(glossary: str, stored: dict[str, NotebookNode]) -> str:
    """The glossary with, behind each meaning, a link to the first lesson that uses the term or, behind a bar, a form of it."""
    prose = {name: words_of(notebook) for name, notebook in stored.items()}

    def linked(entry: re.Match) -> str:
        first = first_lesson(forms(entry), prose)
        link = f" First in [lesson {first[:2]}](notebooks/{first}.ipynb)." if first else ""
        return f"{entry['term']}\n{entry['meaning']}{link}"

    return _TERM.sub(linked, glossary)


def unused_terms() -> list[str]:
    prose = {name: words_of(notebook) for name, notebook in stored_lessons().items()}
    entries = _TERM.finditer((DOCS / "glossary.md").read_text(encoding="utf-8"))
    return [entry["term"] for entry in entries if not first_lesson(forms(entry), prose)]


def forms(entry: re.Match) -> list[str]:
    return [entry["term"], *(entry["forms"] or entry["term"]).split(", ")]


def first_lesson(words: list[str], prose: dict[str, str]) -> str | None:
    """Name of the first lesson whose prose has one of these words, in the singular or the plural."""
    wanted = "|".join(re.escape(word.lower()) for word in words)
    pattern = re.compile(rf"(?<!\w)(?:{wanted})(?:s|es)?(?!\w)")
    return next((name for name, text in prose.items() if pattern.search(text)), None)


def words_of(notebook: NotebookNode) -> str:
    """The prose of a lesson without formulas and titles of papers, on one line in lower case."""
    prose = markdown(notebook).partition("## Further reading")[0]
    return re.sub(r"\s+", " ", re.sub(r"\$[^$]*\$|[*_]", "", prose)).lower()


def references(stored: dict[str, NotebookNode]) -> str:
    """Every work of the bibliography that a lesson or the package cites, with the lessons that list it."""
    texts = {name: markdown(notebook) for name, notebook in stored.items()}
    package = (path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py"))
    cited = {work for text in (*texts.values(), *package) for work in bibliography.citations(text)}
    lines = []
    for work in sorted(bibliography.read(), key=lambda work: (*work.cited_as, work.fields["title"])):
        links = ", ".join(f"[{name[:2]}](notebooks/{name}.ipynb)" for name, text in texts.items() if bibliography.lists(text, work))
        if work.cited_as in cited:
            lines.append(f"- {bibliography.reference(work)}" + (f" Lesson {links}." if links else ""))
    return "\n".join(lines)


def markdown(notebook: NotebookNode) -> str:
    return "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")


# --- the package


def api_page(room: str) -> str:
    """One page a room: each module with the public names it defines. Exercises' solutions are left out."""
    folder = PACKAGE / room
    summary = ast.get_docstring(parsed(folder / "__init__.py")).partition("\n")[0]
    blocks = [f"# {room}", summary]
    for path in sorted(folder.glob("[a-z]*.py")):
        names = public_names(path)
        if names and not path.stem.startswith("lesson_"):
            directive = f".. automodule:: course_utils.{room}.{path.stem}\n   :members: {', '.join(names)}"
            blocks += [f"## {room}.{path.stem}", f"```{{eval-rst}}\n{directive}\n```"]
    return "\n\n".join(blocks)


def public_names(path: Path) -> list[str]:
    """The functions and classes that a module defines and documents."""
    defined = (node for node in parsed(path).body if isinstance(node, ast.FunctionDef | ast.ClassDef))
    return [node.name for node in defined if not node.name.startswith("_") and ast.get_docstring(node)]


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
