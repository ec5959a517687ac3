"""Texts in, batches out."""

from course_utils.data.batch import Batch, make_batch, make_batches
from course_utils.data.entailment import make_entailment
from course_utils.data.examples import Dataset, Example
from course_utils.data.sources import load, load_csv, sources
from course_utils.data.stories import make_stories
from course_utils.data.tasks import load_hub
from course_utils.data.text import Vocabulary, tokenize

__all__ = [
    "Batch",
    "Dataset",
    "Example",
    "Vocabulary",
    "load",
    "load_csv",
    "load_hub",
    "make_batch",
    "make_batches",
    "make_entailment",
    "make_stories",
    "sources",
    "tokenize",
]
