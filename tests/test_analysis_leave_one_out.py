"""Leave-one-out against its definition: delete, encode again, compare."""

import numpy as np
import pytest
import torch
from classifiers import TEXTS, VOCABULARY, small_model

from course_utils.analysis import importance
from course_utils.analysis.importance import leave_one_out
from course_utils.analysis.lstm import Direction
from course_utils.data import make_batch
from course_utils.errors import AnalysisError


def deleted_and_encoded_again(model, text: str) -> list[float]:
    words = text.split()
    with torch.no_grad():
        whole = model(make_batch([text], VOCABULARY)).probabilities
        shorter = [make_batch([" ".join(words[:place] + words[place + 1 :])], VOCABULARY) for place in range(len(words))]
        return [(model(batch).probabilities - whole).abs().sum().item() / 2 for batch in shorter]


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-6)])
@pytest.mark.parametrize("attention", ["additive", "dot"])
@pytest.mark.parametrize("encoder", ["bilstm", "cnn", "average"])
def test_equals_deleting_and_encoding_again(encoder, attention, dtype, tolerance):
    texts = [text for text in TEXTS if " " in text] + ["a a b j i c d d e f g h a b"]
    for n_classes in (2, 3):
        model = small_model(encoder, attention, n_classes).to(dtype)
        frame = leave_one_out(model, make_batch(texts, VOCABULARY))
        expected = np.concatenate([deleted_and_encoded_again(model, text) for text in texts])
        assert frame["leave_one_out"].max() > 1e-3
        np.testing.assert_allclose(frame["leave_one_out"], expected, rtol=0, atol=tolerance)


LONG = [" ".join("abcdefghij"[number * step % 10] for number in range(length)) for step, length in ((3, 150), (7, 130), (1, 40))]


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-6)])
def test_in_long_texts_what_is_forgotten_is_followed_no_further_and_nothing_changes(dtype, tolerance):
    model, batch = small_model().to(dtype), make_batch(LONG, VOCABULARY)
    expected = np.concatenate([deleted_and_encoded_again(model, text) for text in LONG])
    np.testing.assert_allclose(leave_one_out(model, batch)["leave_one_out"], expected, rtol=0, atol=tolerance)

    forward, _ = Direction.of(model.encoder)
    inputs = forward.project(model.embedding(batch.ids))
    with torch.no_grad():
        followed = sum(len(now.text) for now in forward.without_each(inputs, *forward.read(inputs), batch.lengths))
    assert followed < 0.9 * sum(length * (length - 1) // 2 for length in batch.lengths.tolist())


def test_what_an_encoder_never_forgets_is_followed_to_the_end():
    model = small_model()
    with torch.no_grad():
        for bias in (model.encoder.lstm.bias_ih_l0, model.encoder.lstm.bias_ih_l0_reverse):
            bias[8:16] = 40  # the forget gate of 8 cells
    frame = leave_one_out(model, make_batch(LONG, VOCABULARY))
    expected = np.concatenate([deleted_and_encoded_again(model, text) for text in LONG])
    assert frame["leave_one_out"].iloc[0] > 1e-6
    np.testing.assert_allclose(frame["leave_one_out"], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("encoder", ["bilstm", "cnn", "average"])
def test_reports_the_whole_text_beside_it(encoder):
    model, batch = small_model(encoder), make_batch(TEXTS, VOCABULARY)
    frame, output = leave_one_out(model, batch), model(batch)
    np.testing.assert_allclose(frame["attention"], output.attention.detach()[batch.mask], rtol=0, atol=1e-14)
    assert frame.groupby("input")["predicted_class"].first().tolist() == output.predicted.tolist()
    assert frame["token"].tolist() == " ".join(TEXTS).split()


@pytest.mark.parametrize("encoder", ["bilstm", "cnn", "average"])
def test_the_only_token_has_no_value(encoder):
    frame = leave_one_out(small_model(encoder), make_batch(["a", "a b", "b"], VOCABULARY))
    assert frame["leave_one_out"].isna().tolist() == [True, False, False, True]
    assert frame["attention"].tolist()[0] == 1


@pytest.mark.parametrize("rows", [1, 8, 1000])
def test_how_texts_are_grouped_does_not_matter(monkeypatch, rows):
    model, batch = small_model(), make_batch(TEXTS, VOCABULARY)
    expected = leave_one_out(model, batch)["leave_one_out"]
    monkeypatch.setattr(importance, "_TOKENS_AT_ONCE", rows)
    np.testing.assert_allclose(leave_one_out(model, batch)["leave_one_out"], expected, rtol=0, atol=1e-14)


def test_refuses_a_long_text_and_says_what_it_would_cost():
    batch = make_batch(["a b", "a " * 10_000], VOCABULARY)
    with pytest.raises(AnalysisError, match=r"input 1 has 10000 tokens.*100,000,000 encoder steps.*max_tokens=2000"):
        leave_one_out(small_model(), batch)
    assert len(leave_one_out(small_model("average"), make_batch(["a b c"], VOCABULARY), max_tokens=3)) == 3


def test_refuses_an_encoder_it_does_not_know():
    class Reversed(torch.nn.Module):
        output_size = 5

        def forward(self, embedded, mask):
            return embedded.flip(1)

    model = small_model()
    model.encoder = Reversed()
    with pytest.raises(AnalysisError, match="Reversed.*reach"):
        leave_one_out(model, make_batch(TEXTS, VOCABULARY))
