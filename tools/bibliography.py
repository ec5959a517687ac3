"""The works that the course cites, docs/references.bib, and the citations of a text that should resolve to them."""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools import lessons

BIBLIOGRAPHY = lessons.ROOT / "docs" / "references.bib"
VENUES = ("booktitle", "journal", "publisher", "howpublished")
_ENTRY = re.compile(r"^@(?P<kind>\w+)\{(?P<key>[^,\s]+),\n(?P<body>.*?)^\}", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r"^\s*(?P<name>\w+)\s*=\s*\{(?P<value>.*)\},?\s*$", re.MULTILINE)
_NAME = r"[^\W\d_a-z][\w'’-]*[^\W\d_]"
_YEAR = r"((?:18|19|20)\d\d)[a-z]?(?!\d)"
_TOGETHER = rf"(?:(?:,\s+{_NAME})*,?\s+(?:&|and)\s+{_NAME}|,?\s+et\s+al\.)(?:['’]s)?"
_CITATION = re.compile(
    "|".join(
        (  # in this order: a work of several authors must not be read as one by the last of them
            rf"({_NAME}){_TOGETHER},?\s+\(?{_YEAR}",  # Jain & Wallace (2019), (Clark et al. 2019)
            rf"({_NAME})(?:['’]s)?\s+\({_YEAR}",  # Vig (2019)
            rf"[(;]\s*(?:[a-z.]+\s+)*({_NAME}),?\s+{_YEAR}\s*[),;]",  # (Vig 2019), (see Vig 2019, section 3)
            rf"^[-*]\s+(?:[a-z]+\s+)*({_NAME}),\s+[^\W\d_a-z][^()]*\({_YEAR}",  # - Jain, S. & Wallace, B. C. (2019).
        )
    ),
    re.MULTILINE,
)
_CODE = re.compile(r"(```|~~~).*?\1|`[^`]*`", re.DOTALL)


@dataclass(frozen=True)
class Work:
    """One entry of the bibliography.

    Attributes:
        kind: "inproceedings", "article", "book" or "misc", in lower case.
        key: its name in the file.
        fields: the fields by name, without braces.
    """

    kind: str
    key: str
    fields: dict[str, str]

    @property
    def authors(self) -> list[str]:
        """Each as "Surname, First"."""
        return self.fields["author"].split(" and ")

    @property
    def cited_as(self) -> tuple[str, str]:
        """First author's surname and year, as `citations` gives them."""
        return plain(self.authors[0].partition(",")[0]), self.fields["year"]


def read(path: Path = BIBLIOGRAPHY) -> list[Work]:
    """The works of a BibTeX file with one field a line."""
    works = []
    for entry in _ENTRY.finditer(path.read_text(encoding="utf-8")):
        fields = {name: value.replace("{", "").replace("}", "") for name, value in _FIELD.findall(entry["body"])}
        works.append(Work(entry["kind"].lower(), entry["key"], fields))
    return works


def citations(text: str) -> Iterator[tuple[str, str]]:
    """First author's surname, in lower case without accents, and year of every work that a text cites, code left out."""
    for match in _CITATION.finditer(_CODE.sub(" ", text)):
        name, year = filter(None, match.groups())
        yield plain(name), year


def unknown(text: str, works: list[Work]) -> list[str]:
    """The citations of a text that no work resolves, as "surname year"."""
    known = {work.cited_as for work in works}
    return sorted({f"{name} {year}" for name, year in citations(text) if (name, year) not in known})


def lists(text: str, work: Work) -> bool:
    """Whether a text cites this very work: author, year and main title, since Vig (2019) are two."""
    title = re.split(r"[:?]", work.fields["title"])[0]
    return work.cited_as in citations(text) and " ".join(title.lower().split()) in " ".join(text.lower().split())


def plain(surname: str) -> str:
    """The last word in lower case without accents: "van der Maaten" -> "maaten", "Rocktäschel" -> "rocktaschel"."""
    letters = unicodedata.normalize("NFKD", surname.strip().split()[-1])
    return "".join(letter for letter in letters if not unicodedata.combining(letter)).removesuffix("'s").removesuffix("’s").lower()


def reference(work: Work) -> str:
    """The work as a line of Markdown: authors (year). Title. Venue."""
    fields = work.fields
    authors = [author if author != "others" else "et al." for author in work.authors]
    authors = authors if len(authors) < 9 else [*authors[:7], "et al."]
    title = fields["title"] if fields["title"][-1] in "?!." else fields["title"] + "."
    venue = next(fields[name] for name in VENUES if name in fields)
    volume = f" {fields['volume']}" if "volume" in fields else ""
    number = f"({fields['number']})" if "number" in fields else ""
    pages = f", {fields['pages']}" if "pages" in fields else ""
    return f"{'; '.join(authors)} ({fields['year']}). {title} *{venue}*{volume}{number}{pages}.".replace("--", "–").replace(
        "\\&", "&"
    )
