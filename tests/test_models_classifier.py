"""The attention classifier: what its output promises, for every encoder and attention."""

import itertools

import pytest
import torch

from course_utils.data import Vocabulary, make_batch
from course_utils.errors import ModelError, NotLinearError
from course_utils.models import AttentionClassifier, ClassifierConfig, new_classifier
from course_utils.models.attention import ATTENTIONS, masked_softmax
from course_utils.models.embeddings import SCALE, wordpiece_embeddings
from course_utils.models.encoders import ENCODERS, BiLSTMEncoder

VOCABULARY = Vocabulary(("<pad>", "<unk>", *"abcdefgh"))
TEXTS = ["a b c d e f g h a b", "c", "h g f z", "a b c"]
KINDS = list(itertools.product(ENCODERS, ATTENTIONS))


def model_of(encoder="bilstm", attention="additive", n_classes=2):
    torch.manual_seed(3)
    config = ClassifierConfig(encoder, attention, n_classes=n_classes, hidden=8)
    return AttentionClassifier(config, torch.randn(len(VOCABULARY), 5)).double().eval()


@pytest.mark.parametrize(("encoder", "attention"), KINDS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_logits_are_attention_weighted_contributions(encoder, attention, n_classes):
    model = model_of(encoder, attention, n_classes)
    batch = make_batch(TEXTS, VOCABULARY)
    output = model(batch)
    context = (output.attention[..., None] * output.hidden).sum(1)
    torch.testing.assert_close(output.logits, model.decoder(context))
    torch.testing.assert_close(output.attention.sum(1), torch.ones(len(batch), dtype=torch.float64))
    assert not output.attention[~batch.mask].any() and not output.hidden[~batch.mask].any()
    assert not output.contributions[~batch.mask].any()


@pytest.mark.parametrize(("encoder", "attention"), KINDS)
def test_a_prediction_does_not_depend_on_company_padding_or_order(encoder, attention):
    model = model_of(encoder, attention)
    together = model(make_batch(TEXTS, VOCABULARY))
    for row, text in enumerate(TEXTS):
        alone = model(make_batch([text], VOCABULARY))
        length = alone.attention.shape[1]
        torch.testing.assert_close(alone.logits[0], together.logits[row], atol=1e-12, rtol=0)
        torch.testing.assert_close(alone.attention[0], together.attention[row, :length], atol=1e-12, rtol=0)


@pytest.mark.parametrize(("encoder", "attention"), KINDS)
def test_attending_to_one_token_gives_its_token_logit(encoder, attention):
    model = model_of(encoder, attention)
    batch = make_batch([TEXTS[0]], VOCABULARY)
    logits = model(batch).token_logits[0]
    for position in range(10):
        only = torch.nn.functional.one_hot(torch.tensor([position]), 10).double()
        torch.testing.assert_close(model(batch, attention=only).probabilities[0, 1], logits[position].sigmoid())


def test_the_average_encoder_sees_one_word_only():
    model = model_of("average")
    states = [model(make_batch([text], VOCABULARY)).hidden[0, 0] for text in ("a b c", "a h h h")]
    torch.testing.assert_close(*states)


def test_the_dot_product_is_scaled():
    model = model_of(attention="dot")
    batch = make_batch(["a b c"], VOCABULARY)
    hidden = model(batch).hidden
    torch.testing.assert_close(model(batch).attention, ((hidden @ model.attention.query) / 16**0.5).softmax(-1))


def test_masked_softmax_by_hand():
    weights = masked_softmax(torch.tensor([[0.0, torch.log(torch.tensor(3.0)), 99.0]]), torch.tensor([[True, True, False]]))
    torch.testing.assert_close(weights, torch.tensor([[0.25, 0.75, 0.0]]))


def test_unknown_parts_are_refused():
    for bad in ({"encoder": "lstm"}, {"attention": "cosine"}, {"n_classes": 1}, {"encoder": "cnn", "hidden": 30}):
        with pytest.raises(ModelError):
            AttentionClassifier(ClassifierConfig(**bad), torch.randn(4, 3))


def test_token_logits_need_two_classes():
    with pytest.raises(NotLinearError, match="3"):
        _ = model_of(n_classes=3)(make_batch(TEXTS, VOCABULARY)).token_logits


def test_word_vectors_come_from_the_wordpiece_table():
    vocabulary = Vocabulary(("<pad>", "<unk>", "film", "films", "unputdownable", "☃"))
    vectors = wordpiece_embeddings(vocabulary)
    assert vectors.shape == (6, 384) and not vectors[0].any()
    assert vectors[1:].std().item() == pytest.approx(SCALE, rel=1e-4)
    cosine = torch.nn.functional.cosine_similarity
    assert cosine(vectors[2], vectors[3], dim=0) > 0.5 > cosine(vectors[2], vectors[4], dim=0)


def test_a_seed_decides_the_initial_weights_and_nothing_else():
    torch.manual_seed(11)
    expected = torch.rand(1)
    torch.manual_seed(11)
    first, second, third = (new_classifier(ClassifierConfig(hidden=8), VOCABULARY, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(torch.rand(1), expected)
    assert torch.equal(first.decoder.weight, second.decoder.weight)
    assert not torch.equal(first.decoder.weight, third.decoder.weight)


def test_a_bilstm_reads_padded_texts_as_packed_ones():
    generator = torch.Generator().manual_seed(0)
    encoder = BiLSTMEncoder(6, hidden=5).double()
    embedded = torch.randn(4, 7, 6, generator=generator, dtype=torch.float64, requires_grad=True)
    lengths = torch.tensor([3, 7, 1, 5])
    mask = torch.arange(7) < lengths[:, None]
    packed = torch.nn.utils.rnn.pack_padded_sequence(embedded, lengths, batch_first=True, enforce_sorted=False)
    expected = torch.nn.utils.rnn.pad_packed_sequence(encoder.lstm(packed)[0], batch_first=True)[0]
    found = encoder(embedded, mask)
    torch.testing.assert_close(found, expected)
    for wanted, parameter in ((embedded, "words"), (encoder.lstm.weight_hh_l0_reverse, "weights")):
        gradients = [torch.autograd.grad((states**2).sum(), wanted, retain_graph=True)[0] for states in (found, expected)]
        torch.testing.assert_close(*gradients, msg=parameter)
