"""Texts in, batches out."""

from course_utils.data.batch import Batch, make_batch, make_batches
from course_utils.data.examples import Dataset, Example
from course_utils.data.text import Vocabulary, tokenize

__all__ = ["Batch", "Dataset", "Example", "Vocabulary", "make_batch", "make_batches", "tokenize"]
