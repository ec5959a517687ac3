import numpy as np
import pandas as pd
import pytest
import torch
from tiny import TEXTS, save_bert, save_gpt2

from course_utils.analysis.suppression import by_head, copying, expected_removal, removal
from course_utils.errors import AnalysisError
from course_utils.models import Encoder, load_encoder
from course_utils.models.finetuned import EncoderClassifier
from course_utils.models.heads import attention_modules, gate_heads, output_weights

LABELS = [1, 0, 1, 0, 1, 0]
ALL = [(layer, head) for layer in range(2) for head in range(3)]


def double(folder, save=save_bert) -> Encoder:
    encoder = load_encoder(save(folder))
    return Encoder(encoder.model.double(), encoder.tokenizer)


@pytest.fixture(scope="module", params=[save_bert, save_gpt2], ids=["bert", "gpt2"])
def encoder(request, tmp_path_factory):
    return double(tmp_path_factory.mktemp("model"), request.param)


@pytest.fixture(scope="module", params=[2, 3], ids=["2 classes", "3 classes"])
def classifier(request, tmp_path_factory):
    classifier = EncoderClassifier(double(tmp_path_factory.mktemp("model")), request.param).double()
    torch.nn.init.normal_(classifier.head.weight, generator=torch.Generator().manual_seed(0))
    return classifier.eval().requires_grad_(False)


def test_copying_written_out(encoder):
    frame = copying(encoder, TEXTS).set_index(["input", "layer", "head"])["copying"]
    table, weights = encoder.model.get_input_embeddings().weight.detach(), output_weights(encoder.model)
    for number in (0, 3):
        maps = encoder.attend(TEXTS[number : number + 1], states=True)
        places = (~maps.special[0]).nonzero()[:, 0].tolist()
        for layer, head in ALL:
            written = [maps.values[0, layer, head, at] @ weights[layer, head] for at in places]
            embedded = [table[maps.ids[0, at]] for at in places]
            written, embedded = ([v - sum(vectors) / len(vectors) for v in vectors] for vectors in (written, embedded))
            total = score = 0
            for query in places:
                for key, (w, e) in zip(places, zip(written, embedded, strict=True), strict=True):
                    if key != query:
                        weight = float(maps.attention[0, layer, head, query, key])
                        total += weight
                        score += weight * float(torch.cosine_similarity(w, e, dim=0))
            assert frame[number, layer, head] == pytest.approx(score / total, abs=1e-9)


def test_a_planted_copier_and_a_planted_suppressor(tmp_path):
    encoder = double(tmp_path)
    size = encoder.model.config.hidden_size // 3
    value, projection = (attention_modules(encoder.model, part)[0] for part in ("value", "projection"))
    normal = encoder.model.embeddings.LayerNorm
    with torch.no_grad():
        encoder.model.embeddings.position_embeddings.weight.zero_()
        normal.weight.fill_(1), normal.bias.zero_()
        value.bias.zero_()
        words = encoder.model.embeddings.word_embeddings.weight
        words[:, size:] = 0  # four numbers make a word, and head 0 reads them; head 1 reads the same and turns their sign
        value.weight.zero_(), projection.weight.zero_()
        for head, sign in ((0, 1), (1, -1)):
            value.weight[head * size : (head + 1) * size, :size] = torch.eye(size)
            projection.weight[:size, head * size : (head + 1) * size] = sign * torch.eye(size)
    frame = copying(encoder, TEXTS)
    means = frame[frame["layer"] == 0].groupby("head")["copying"].mean()
    assert means[0] > 0.6 and means[1] < -0.6 and means[2] == 0


def test_copying_does_not_depend_on_batches(encoder):
    pd.testing.assert_frame_equal(copying(encoder, TEXTS), copying(encoder, TEXTS, token_budget=1), atol=1e-9)


def test_texts_of_one_piece_have_no_score(encoder):
    frame = copying(encoder, ["!", "bad film", "a"])
    assert set(frame["input"]) == {1}
    with pytest.raises(AnalysisError, match="two word pieces"):
        copying(encoder, ["!", "a"])


def margin(logits, label):
    others = torch.cat([logits[:label], logits[label + 1 :]])
    return float(logits[label] - others.logsumexp(0))


def test_removal_one_text_and_head_at_a_time(classifier):
    frame = removal(classifier, TEXTS, LABELS, ALL)
    assert len(frame) == len(TEXTS) * len(ALL)
    for row in frame.itertuples():
        pieces = classifier.encoder.pieces([TEXTS[row.input]])
        gates = torch.ones(2, 3)
        gates[row.layer, row.head] = 0
        with torch.no_grad():
            whole = classifier(pieces)[0]
            with gate_heads(classifier.body, gates):
                without = classifier(pieces)[0]
        for column, label in (("toward_right", LABELS[row.input]), ("toward_predicted", int(whole.argmax()))):
            assert getattr(row, column) == pytest.approx(margin(without, label) - margin(whole, label), abs=1e-9)


def test_removal_does_not_depend_on_batches_or_order(classifier):
    frame = removal(classifier, TEXTS, LABELS, ALL)
    pd.testing.assert_frame_equal(frame, removal(classifier, TEXTS, LABELS, ALL[::-1], token_budget=1), atol=1e-9)


def test_the_estimate_is_the_slope_of_the_gate(classifier):
    frame = expected_removal(classifier, TEXTS, LABELS, token_budget=30).set_index(["input", "layer", "head"])
    step, labelled = 1e-5, list(zip(TEXTS, LABELS, strict=True))
    for layer, head in ALL:
        found = []
        for factor in (1 + step, 1 - step):
            gates = torch.ones(2, 3, dtype=torch.float64)
            gates[layer, head] = factor
            with torch.no_grad(), gate_heads(classifier.body, gates):
                found.append([margin(classifier(classifier.encoder.pieces([text]))[0], at) for text, at in labelled])
        slope = (np.array(found[0]) - np.array(found[1])) / (2 * step)
        np.testing.assert_allclose(frame.xs((layer, head), level=("layer", "head"))["toward_right"], -slope, atol=1e-7)
    assert not list(classifier.body.encoder.layer[0].attention.output.dense._forward_pre_hooks)


def test_means_with_intervals_over_texts():
    rng = np.random.default_rng(0)
    values = rng.normal(0.5, 1, 400)
    frame = pd.DataFrame({"input": range(400), "layer": 0, "head": 1, "x": values})
    frame = pd.concat([frame, frame.assign(head=2, x=-values)])
    found = by_head(frame, "x").set_index("head")
    assert found.loc[1, "mean"] == pytest.approx(values.mean()) == -found.loc[2, "mean"]
    assert found.loc[1, "low"] == pytest.approx(-found.loc[2, "high"])
    assert found.loc[1, "high"] - found.loc[1, "low"] == pytest.approx(2 * 1.96 / 20, rel=0.15)


@pytest.mark.parametrize("heads", [[], [(2, 0)], [(0, 3)], [(0, 0), (-1, 0)]])
def test_heads_that_are_not_there(classifier, heads):
    with pytest.raises(AnalysisError, match="below 2 and a head below 3"):
        removal(classifier, TEXTS, LABELS, heads)


@pytest.mark.parametrize("labels", [[], [0] * 5, [0, 0, 0, 0, 0, 7], [0, 0, 0, 0, 0, -1]])
def test_labels_that_do_not_fit(classifier, labels):
    for function in (lambda *given: removal(*given, ALL), expected_removal):
        with pytest.raises(AnalysisError, match="6 texts need as many labels"):
            function(classifier, TEXTS, labels)
