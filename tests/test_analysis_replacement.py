"""Words replaced one at a time, or all but one: what the most attended state owes to its own word."""

import numpy as np
import pandas as pd
import pytest
import torch
from classifiers import TEXTS, VOCABULARY, small_model

from course_utils.analysis import over, replacement
from course_utils.data import make_batch, make_batches
from course_utils.errors import AnalysisError

POOL = torch.arange(2, len(VOCABULARY))


def test_a_state_without_context_changes_with_its_own_word_only():
    frame = replacement.one_word(small_model("average"), make_batch(TEXTS, VOCABULARY), POOL)
    far = frame[frame["distance"] != 0]
    assert (far[["state_change", "logit_change", "other_terms"]] == 0).all(axis=None)
    assert (frame.loc[frame["distance"] == 0, "state_change"] > 0).all()
    np.testing.assert_allclose(frame["other_terms"], 0, atol=1e-12)


def test_a_convolution_reaches_three_words_and_a_bilstm_all():
    batch = make_batch(TEXTS[:1], VOCABULARY)
    cnn, lstm = (replacement.one_word(small_model(encoder), batch, POOL) for encoder in ("cnn", "bilstm"))
    assert (cnn.loc[cnn["distance"].abs() > 3, "state_change"] == 0).all()
    assert (lstm["state_change"] > 0).all()


def test_a_row_is_what_the_model_says_of_the_changed_text():
    model, text = small_model(), "a b c d e f g"
    pool = torch.tensor(VOCABULARY.encode(["j"]))
    frame = replacement.one_word(model, make_batch([text], VOCABULARY), pool)
    with torch.no_grad():
        old, new = (model(make_batch([one], VOCABULARY)) for one in (text, text.replace("c", "j")))
        fixed = model(make_batch([text.replace("c", "j")], VOCABULARY), attention=old.attention)
    top = int(old.attention.argmax())
    row = frame[frame["position"] == 2].iloc[0]
    expected = {
        "attention": old.attention[0, 2],
        "distance": 2 - top,
        "state_change": (new.hidden[0, top] - old.hidden[0, top]).norm() / old.hidden[0, top].norm(),
        "logit_change": (new.token_logits[0, top] - old.token_logits[0, top]).abs(),
        "change": (new.probabilities - old.probabilities)[0, 1].abs(),
        "change_fixed": (fixed.probabilities - old.probabilities)[0, 1].abs(),
    }
    assert row["token"] == "c"
    for column, value in expected.items():
        assert row[column] == pytest.approx(float(value), abs=1e-10), column


def test_all_words_but_one_equals_encoding_that_text():
    model = small_model()
    frame = replacement.own_or_others(model, make_batch(["a b c"], VOCABULARY), torch.tensor(VOCABULARY.encode(["j"])))
    with torch.no_grad():
        old = model(make_batch(["a b c"], VOCABULARY))
        top = int(old.attention.argmax())
        words = ["j"] * 3
        words[top] = "abc"[top]
        new = model(make_batch([" ".join(words)], VOCABULARY))
    change = (new.hidden[0, top] - old.hidden[0, top]).norm() / old.hidden[0, top].norm()
    others = frame[frame["replaced"] == "all other words"].iloc[0]
    assert others["state_change"] == pytest.approx(float(change), abs=1e-10)
    assert list(frame["replaced"]) == ["that word", "all other words", "all words"]


@pytest.mark.parametrize("experiment", [replacement.one_word, replacement.own_or_others])
def test_company_and_padding_change_nothing(experiment):
    model = small_model()
    together = over(experiment, model, [make_batch(TEXTS, VOCABULARY)], pool=POOL)
    apart = over(experiment, model, make_batches(TEXTS, VOCABULARY, token_budget=1), pool=POOL)
    pd.testing.assert_frame_equal(together, apart, rtol=0, atol=1e-9)


def test_an_empty_pool_is_refused():
    with pytest.raises(AnalysisError, match="no word to draw from"):
        replacement.one_word(small_model(), make_batch(TEXTS, VOCABULARY), POOL[:0])
