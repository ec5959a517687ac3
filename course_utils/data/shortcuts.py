"""How far words alone go: what a classifier reaches that cannot see their order."""

import pandas as pd
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler

from course_utils.data.examples import Dataset, Example


def bag_of_words(dataset: Dataset) -> pd.DataFrame:
    """Test accuracy of readers that take a text for a bag of words: logistic regression on word counts, fitted on train.

    A task is about order only as far as a model does better than these. A query alone that beats the majority gives the answer away
    (Gururangan et al. 2018).

    Returns:
        one row a reader, columns `reader` and `accuracy` in [0, 1]: "majority" (the most frequent class of train), "text" and,
        where there are queries, "query" and "text and query" (a word of the query is counted apart from the same word of the text).
    """

    def text(example: Example) -> list[str]:
        return list(example.tokens)

    def query(example: Example) -> list[str]:
        return [f"query: {word}" for word in example.query_tokens]

    def both(example: Example) -> list[str]:
        return text(example) + query(example)

    readers = {"text": text, "query": query, "text and query": both} if dataset.train[0].query is not None else {"text": text}
    train, test = (pd.Series([example.label for example in split]) for split in (dataset.train, dataset.test))
    rows = [("majority", float((test == train.mode()[0]).mean()))]
    for name, words in readers.items():
        reader = make_pipeline(CountVectorizer(analyzer=words), MaxAbsScaler(), LogisticRegression(max_iter=1000))
        rows.append((name, float(reader.fit(dataset.train, train).score(dataset.test, test))))
    return pd.DataFrame(rows, columns=["reader", "accuracy"])
