"""Two texts: what a query changes in attention and decoder, and that every experiment takes such models."""

import itertools

import numpy as np
import pytest
import torch

from course_utils.analysis import adversary, faithfulness, permutation
from course_utils.analysis.erasure import predict_kept
from course_utils.analysis.importance import gradient, leave_one_out
from course_utils.analysis.integrated import integrated_gradients
from course_utils.analysis.rankings import rankings
from course_utils.analysis.reading import generators
from course_utils.data import Example, Vocabulary, make_batch
from course_utils.errors import ModelError, NotLinearError
from course_utils.models import AttentionClassifier, ClassifierConfig
from course_utils.models.attention import ATTENTIONS
from course_utils.models.encoders import ENCODERS

VOCABULARY = Vocabulary(("<pad>", "<unk>", *"abcdefgh"))
PAIRS = [("a b c d e f g", "h a"), ("b", "c c c"), ("d e a h", "f"), ("d e a h", "g b")]
KINDS = list(itertools.product(ENCODERS, ATTENTIONS, ("linear", "tanh")))


def model_of(encoder="bilstm", attention="additive", decoder="linear", n_classes=3):
    with torch.random.fork_rng():
        torch.manual_seed(5)
        config = ClassifierConfig(encoder, attention, n_classes=n_classes, hidden=8, query=True, decoder=decoder)
        return AttentionClassifier(config, 2 * torch.randn(len(VOCABULARY), 5)).double().eval()


def batch_of(pairs=PAIRS):
    return make_batch([Example(text, query=query) for text, query in pairs], VOCABULARY)


@pytest.mark.parametrize(("encoder", "attention", "decoder"), KINDS)
def test_a_prediction_does_not_depend_on_company_and_depends_on_the_query(encoder, attention, decoder):
    model = model_of(encoder, attention, decoder)
    together = model(batch_of())
    for row, pair in enumerate(PAIRS):
        alone = model(batch_of([pair]))
        torch.testing.assert_close(alone.logits[0], together.logits[row], atol=1e-12, rtol=0)
        torch.testing.assert_close(alone.attention[0], together.attention[row, : alone.attention.shape[1]], atol=1e-12, rtol=0)
    assert not torch.allclose(together.logits[2], together.logits[3])
    assert attention == "uniform" or not torch.allclose(together.attention[2], together.attention[3])


@pytest.mark.parametrize(("encoder", "attention"), list(itertools.product(ENCODERS, ATTENTIONS)))
def test_given_the_query_the_linear_decoder_is_linear(encoder, attention):
    model, batch = model_of(encoder, attention), batch_of()
    output = model(batch)
    context = (output.attention[..., None] * output.hidden).sum(1)
    torch.testing.assert_close(output.logits, model.decoder(context, model.encode_query(batch)))
    only = torch.zeros_like(output.attention)
    only[:, 0] = 1
    torch.testing.assert_close(model(batch, attention=only).logits, output.contributions[:, 0])


def test_the_tanh_decoder_has_no_contributions_and_says_so():
    model, batch = model_of(decoder="tanh"), batch_of()
    output = model(batch)
    assert output.contributions is None
    query = model.encode_query(batch)
    context = (output.attention[:, None] @ output.hidden).squeeze(1)
    by_hand = model.decoder.output((model.decoder.project(context) + model.decoder.project_query(query)).tanh())
    torch.testing.assert_close(output.logits, by_hand)
    with pytest.raises(NotLinearError, match="published"):
        permutation.permute(model, batch)
    assert adversary.published(model, batch, eps=0.05, n_steps=3)["max_jsd"].between(0, np.log(2)).all()


def test_scores_with_a_query_are_the_published_ones():
    batch = batch_of()
    additive, dot = model_of(attention="additive"), model_of(attention="dot")
    hidden, query = additive(batch).hidden, additive.encode_query(batch)
    part = additive.attention
    scores = (hidden @ part.project.weight.T + part.project.bias + (query @ part.project_query.weight.T)[:, None]).tanh()
    expected = (scores @ part.score.weight[0]).masked_fill(~batch.mask, -torch.inf).softmax(-1)
    torch.testing.assert_close(additive(batch).attention, expected)
    hidden, query = dot(batch).hidden, dot.encode_query(batch)
    scores = torch.einsum("bth,bh->bt", hidden, query) / 16**0.5
    torch.testing.assert_close(dot(batch).attention, scores.masked_fill(~batch.mask, -torch.inf).softmax(-1))


def test_summaries_by_hand():
    states = torch.tensor([[[1.0, 2.0], [3.0, 4.0], [0.0, 0.0]]])
    mask = torch.tensor([[True, True, False]])
    assert ENCODERS["bilstm"].summary(states, mask).tolist() == [[3.0, 2.0]]
    assert ENCODERS["cnn"].summary(states, mask).tolist() == [[3.0, 4.0]]
    assert ENCODERS["average"].summary(states, mask).tolist() == [[2.0, 3.0]]


@pytest.mark.parametrize("decoder", ["linear", "tanh"])
def test_leave_one_out_encodes_each_shortened_text_with_its_query(decoder):
    model, batch = model_of(decoder=decoder), batch_of()
    table = leave_one_out(model, batch)
    whole = model(batch).probabilities
    for row in table[table["input"] != 1].itertuples():
        text, query = PAIRS[row.input]
        words = text.split()
        shorter = batch_of([(" ".join(words[: row.position] + words[row.position + 1 :]), query)])
        expected = (model(shorter).probabilities[0] - whole[row.input]).abs().sum() / 2
        assert row.leave_one_out == pytest.approx(expected.item(), abs=1e-9)
    assert table.loc[table["input"] == 1, "leave_one_out"].isna().all()


@pytest.mark.parametrize("decoder", ["linear", "tanh"])
def test_the_gradient_is_a_slope(decoder):
    model, batch = model_of(decoder=decoder), batch_of()
    table = gradient(model, batch)
    output, embedded = model(batch), model.embedding(batch.ids)
    step = 1e-6
    for row in table.itertuples():
        scaled = embedded.clone()
        scaled[row.input, row.position] *= 1 + step
        changed = model(batch, embedded=scaled, attention=output.attention).probabilities[row.input, row.predicted_class]
        slope = (changed - output.probabilities[row.input, row.predicted_class]) / step
        assert row.gradient == pytest.approx(abs(slope.item()), abs=1e-5)


def test_integrated_gradients_are_complete_with_a_query():
    model, batch = model_of(), batch_of()
    table = integrated_gradients(model, batch, n_steps=200)
    assert table["convergence_delta"].abs().max() < 1e-4
    output = model(batch)
    empty = model(batch, embedded=torch.zeros_like(model.embedding(batch.ids)))
    rows = torch.arange(len(batch))
    expected = (output.probabilities - empty.probabilities)[rows, output.predicted]
    np.testing.assert_allclose(table.groupby("input")["integrated_gradients"].sum(), expected.detach(), atol=1e-4)


def test_every_experiment_runs_on_pairs():
    model, batch = model_of(), batch_of()
    scores = rankings(model, batch)
    assert faithfulness.eraser(model, batch, scores.drop(columns="convergence_delta"))["sufficiency"].notna().all()
    assert permutation.permute(model, batch)["median_change"].between(0, 1).all()
    assert adversary.search(model, batch, eps=0.05)["max_jsd"].between(0, np.log(2)).all()
    assert adversary.exact(model_of(n_classes=2), batch, eps=0.05)["max_jsd"].between(0, np.log(2)).all()


def test_two_questions_about_one_text_are_two_inputs():
    batch = batch_of()
    draws = [generator.random() for generator in generators(batch, 0)]
    assert draws[2] != draws[3]
    again = generators(batch.select(torch.tensor([3])), 0)[0].random()
    assert again == draws[3]


def test_keeping_some_tokens_keeps_the_query():
    model, batch = model_of(), batch_of()
    keep = torch.zeros(len(batch), 1, batch.ids.shape[1], dtype=torch.bool)
    keep[:, :, :1] = True
    firsts = batch_of([(text.split()[0], query) for text, query in PAIRS])
    torch.testing.assert_close(predict_kept(model, batch, keep)[:, 0], model(firsts).probabilities.detach())


def test_select_takes_rows_of_everything():
    examples = [Example(text, number % 2, query, (True,) * len(text.split())) for number, (text, query) in enumerate(PAIRS)]
    batch = make_batch(examples, VOCABULARY).select(torch.tensor([2, 1, 2]))
    expected = make_batch([examples[2], examples[1], examples[2]], VOCABULARY)
    for part in ("ids", "mask", "lengths", "labels", "gold"):
        assert torch.equal(getattr(batch, part), getattr(expected, part)), part
    assert torch.equal(batch.query.ids, expected.query.ids) and batch.tokens == expected.tokens
    assert batch.index.tolist() == [2, 1, 2]


def test_a_missing_query_is_named():
    with pytest.raises(ModelError, match="second"):
        model_of()(make_batch(["a b"], VOCABULARY))
