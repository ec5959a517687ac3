"""Moving the attention, without a browser: the state is what the exact formulas say, the widgets mirror it."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from course_utils.analysis import adversary
from course_utils.data import Vocabulary, make_batch
from course_utils.errors import NotLinearError, ShowError
from course_utils.models import AttentionClassifier, ClassifierConfig
from course_utils.show.widgets import AttentionMover, MovedAttention, move_attention

TEXTS = ["a good film", "not a good film , but long"]
VOCABULARY = Vocabulary.build([text.split() for text in TEXTS])


def model(n_classes: int = 2) -> AttentionClassifier:
    embeddings = torch.randn(len(VOCABULARY), 6, generator=torch.Generator().manual_seed(0))
    return AttentionClassifier(ClassifierConfig(encoder="average", hidden=8, n_classes=n_classes), embeddings).double().eval()


def state(eps: float = 0.05) -> MovedAttention:
    return MovedAttention(("good", "dull", "film"), [0.6, 0.3, 0.1], [2.0, -1.0, 0.5], eps)


def test_the_state_starts_at_the_models_own_attention():
    moved = state()
    assert moved.probability == moved.original_probability == pytest.approx(1 / (1 + np.exp(-0.95)))
    assert moved.change == 0 and moved.jsd == 0 and moved.same_prediction


def test_moving_one_token_keeps_the_proportions_of_the_others():
    moved = state()
    moved.move(0, 0.2)
    assert moved.weights.tolist() == pytest.approx([0.2, 0.6, 0.2])
    assert moved.change == pytest.approx(1 / (1 + np.exp(0.1)) - moved.original_probability)
    assert not moved.same_prediction


def test_the_rest_is_shared_equally_where_the_others_have_nothing():
    moved = state()
    moved.move(1, 1.0)
    moved.move(1, 0.5)
    assert moved.weights.tolist() == pytest.approx([0.25, 0.5, 0.25])


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 2), st.floats(0, 1)), max_size=12))
def test_after_any_moves_the_weights_are_a_distribution(moves):
    moved = state()
    for position, weight in moves:
        moved.move(position, weight)
        assert float(moved.weights[position]) == weight
        assert float(moved.weights.min()) >= 0 and float(moved.weights.sum()) == pytest.approx(1, abs=1e-9)
    assert 0 <= moved.jsd <= np.log(2) + 1e-9
    moved.reset()
    assert moved.change == 0


def test_uniform_gives_the_mean_logit():
    moved = state()
    moved.spread()
    assert moved.probability == pytest.approx(1 / (1 + np.exp(-0.5)))


def test_one_token_cannot_be_moved():
    moved = MovedAttention(["only"], [1.0], [2.0])
    moved.move(0, 0.3)
    assert moved.weights.tolist() == [1.0]


def test_the_worst_is_the_exact_adversary_of_the_model():
    classifier, batch = model(), make_batch(TEXTS, VOCABULARY)
    frame = adversary.exact(classifier, batch, 0.02)
    for row in range(2):
        moved = MovedAttention.of(classifier, batch, row, eps=0.02)
        moved.worst()
        assert moved.jsd == pytest.approx(frame["max_jsd"][row], abs=1e-9) and moved.same_prediction
        assert abs(moved.change) == pytest.approx(frame["change"][row], abs=1e-9)


def test_the_state_predicts_what_the_model_predicts_and_leaves_padding_out():
    classifier, batch = model(), make_batch(TEXTS, VOCABULARY)
    moved = MovedAttention.of(classifier, batch, 0)
    assert moved.original_probability == pytest.approx(classifier(batch).probabilities[0, 1].item(), abs=1e-9)
    assert moved.tokens == ("a", "good", "film") and len(moved.weights) == 3
    moved.move(1, 0.9)
    other = torch.zeros(2, batch.ids.shape[1], dtype=torch.float64)
    other[0, :3] = moved.weights
    assert moved.probability == pytest.approx(classifier(batch, attention=other).probabilities[0, 1].item(), abs=1e-9)


def test_a_slider_moves_the_state_and_the_other_sliders_the_status_and_the_picture():
    mover = AttentionMover(state(), ("negative", "positive"))
    status, picture = mover.status.value, mover.picture.value
    assert [slider.value for slider in mover.sliders] == [60, 30, 10]
    mover.sliders[0].value = 20
    assert mover.state.weights.tolist() == pytest.approx([0.2, 0.6, 0.2])
    assert [slider.value for slider in mover.sliders] == [20, 60, 20]
    assert mover.status.value != status and "another prediction" in mover.status.value
    assert mover.picture.value != picture


def test_the_buttons_do_what_they_say():
    mover = AttentionMover(state(), ("negative", "positive"))
    start = mover.status.value
    mover.buttons["uniform"].click()
    assert [slider.value for slider in mover.sliders] == [33, 33, 33]
    mover.buttons["exact"].click()
    assert mover.state.jsd > 0.1 and "the same prediction" in mover.status.value
    assert sum(weight > 0 for weight in mover.state.weights.tolist()) <= 2
    mover.buttons["own"].click()
    assert mover.status.value == start


def test_the_fallback_needs_no_kernel_and_comes_first(monkeypatch):
    shown = []
    monkeypatch.setattr("course_utils.show.widgets.display", shown.append)
    mover = move_attention(model(), make_batch(TEXTS, VOCABULARY), 1, classes=("<bad>", "<good>"))
    mover._ipython_display_()
    assert shown == [mover.fallback, mover.box]
    assert "the exact adversary: p(&lt;good&gt;)" in mover.fallback.data
    assert "<good>" not in mover.fallback.data + mover.status.value + mover.picture.value
    assert not any(slider.description_allow_html for slider in mover.sliders)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"tokens": ["good"]}, "1 tokens"),
        ({"attention": [0.5, 0.2, 0.1]}, "sum 0.8"),
        ({"attention": [1.2, -0.1, -0.1]}, "not negative"),
        ({"token_logits": [np.nan, 1, 1]}, "finite"),
        ({"eps": 0}, "eps is 0"),
    ],
)
def test_a_state_that_makes_no_sense_is_refused(changed, message):
    good = {"tokens": list("abc"), "attention": [0.6, 0.3, 0.1], "token_logits": [2.0, -1.0, 0.5], "eps": 0.1}
    with pytest.raises(ShowError, match=message):
        MovedAttention(**good | changed)


def test_questions_that_have_no_answer_are_refused():
    batch = make_batch([*TEXTS, " ".join(["film"] * 41)], VOCABULARY)
    with pytest.raises(ShowError, match="row 3"):
        move_attention(model(), batch, 3)
    with pytest.raises(ShowError, match="41 tokens"):
        move_attention(model(), batch, 2)
    with pytest.raises(ShowError, match="2 classes"):
        move_attention(model(), batch, classes=("one",))
    with pytest.raises(NotLinearError):
        move_attention(model(n_classes=3), batch)
    with pytest.raises(ShowError, match="between 0 and 1"):
        state().move(0, 1.5)
