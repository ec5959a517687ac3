"""Training stops, goes on and is saved without losing anything."""

import json

import pytest
import torch

from course_utils.__main__ import main
from course_utils.data import Dataset, Example, Vocabulary, make_batch, make_batches
from course_utils.errors import ModelError
from course_utils.models import ClassifierConfig, checkpoints, load_checkpoint, new_classifier, read_card, recipes, training
from course_utils.models.training import TrainingConfig, evaluate, fit

VOCABULARY = Vocabulary(("<pad>", "<unk>", "the", "film", "is", "was", "good", "bad", "long"))
FILLERS = ["the film is", "the film was long", "was the film", "film", "the long film is"]
TEXTS = [Example(f"{filler} {word}", int(word == "good")) for filler in FILLERS for word in ("good", "bad")] * 4
CONFIG = TrainingConfig(epochs=4, patience=4, batch_tokens=40, word_dropout=0.1)


def fresh(seed=0, **parts):
    return new_classifier(ClassifierConfig(hidden=8, **parts), VOCABULARY, seed=seed)


def weights(model):
    return torch.cat([parameter.detach().flatten() for name, parameter in model.named_parameters() if parameter.requires_grad])


def test_it_learns_and_the_word_vectors_stay():
    model = fresh()
    before = model.embedding.weight.clone()
    history = fit(model, TEXTS, TEXTS, VOCABULARY, TrainingConfig(epochs=15, batch_tokens=40, word_dropout=0.0))
    assert evaluate(model, make_batches(TEXTS, VOCABULARY))["accuracy"] == 1.0
    assert history.train_loss.iloc[-1] < history.train_loss.iloc[0] and not history.attrs["interrupted"]
    assert torch.equal(before, model.embedding.weight) and not model.training


def test_a_seed_repeats_a_run():
    runs = []
    for seed in (0, 0, 1):
        model = fresh()
        fit(model, TEXTS, TEXTS, VOCABULARY, TrainingConfig(epochs=2, batch_tokens=40, seed=seed))
        runs.append(weights(model))
    assert torch.equal(runs[0], runs[1]) and not torch.equal(runs[0], runs[2])


@pytest.mark.parametrize("stop_after", [1, 3])
def test_an_interrupted_run_goes_on_to_the_same_end(tmp_path, monkeypatch, stop_after):
    straight = fresh()
    expected = fit(straight, TEXTS, TEXTS, VOCABULARY, CONFIG)
    resume_file = tmp_path / "run.resume.safetensors"
    epochs, train_epoch = [], training._train_epoch

    def interrupted_epoch(*arguments):
        if len(epochs) == stop_after:
            raise KeyboardInterrupt
        epochs.append(1)
        return train_epoch(*arguments)

    monkeypatch.setattr(training, "_train_epoch", interrupted_epoch)
    stopped = fresh()
    history = fit(stopped, TEXTS, TEXTS, VOCABULARY, CONFIG, resume_file=resume_file)
    assert history.attrs["interrupted"] and len(history) == stop_after and resume_file.exists()
    monkeypatch.undo()
    resumed = fresh(seed=5)
    history = fit(resumed, TEXTS, TEXTS, VOCABULARY, CONFIG, resume_file=resume_file)
    assert torch.equal(weights(resumed), weights(straight)) and history.equals(expected) and not resume_file.exists()
    assert list(tmp_path.iterdir()) == []


def test_a_resume_file_of_another_run_is_refused(tmp_path, monkeypatch):
    resume_file = tmp_path / "run.resume.safetensors"
    monkeypatch.setattr(training.Path, "unlink", lambda *_, **__: None)
    fit(fresh(), TEXTS, TEXTS, VOCABULARY, CONFIG, resume_file=resume_file)
    with pytest.raises(ModelError, match="another run"):
        fit(fresh(), TEXTS, TEXTS, VOCABULARY, TrainingConfig(epochs=4, seed=1), resume_file=resume_file)
    with pytest.raises(ModelError, match="another run"):
        fit(fresh(encoder="cnn"), TEXTS, TEXTS, VOCABULARY, CONFIG, resume_file=resume_file)


def test_patience_ends_training_early():
    history = fit(fresh(), TEXTS, TEXTS, VOCABULARY, TrainingConfig(epochs=40, patience=2, batch_tokens=40, word_dropout=0.0))
    assert len(history) < 40
    assert history.dev_accuracy.iloc[-2:].max() <= history.dev_accuracy.iloc[:-2].max()


def test_texts_that_cannot_be_learnt_from_are_refused():
    for train, dev in (([], TEXTS), (TEXTS, []), ([Example("good")], TEXTS), (TEXTS, [Example("good", 2)])):
        with pytest.raises(ModelError):
            fit(fresh(), train, dev, VOCABULARY, CONFIG)


@pytest.mark.parametrize("train_embeddings", [False, True])
def test_a_checkpoint_comes_back_in_half_precision(tmp_path, train_embeddings):
    model = fresh(train_embeddings=train_embeddings)
    checkpoints.save_checkpoint(tmp_path / "x", model, VOCABULARY, {"command": "test"})
    loaded, vocabulary = load_checkpoint(tmp_path / "x")
    batch = make_batch(["the film was good"], VOCABULARY)
    torch.testing.assert_close(loaded(batch).logits, model(batch).logits, atol=2e-3, rtol=0)
    assert vocabulary == VOCABULARY and not loaded.training and loaded.config == model.config
    assert read_card(tmp_path / "x")["command"] == "test"


def test_a_damaged_checkpoint_is_refused(tmp_path):
    path = tmp_path / "x"
    checkpoints.save_checkpoint(path, fresh(), VOCABULARY, {})
    card = json.loads((tmp_path / "x.json").read_text())
    (tmp_path / "x.json").write_text(json.dumps(card | {"config": card["config"] | {"hidden": 16}}))
    with pytest.raises(ModelError, match="another architecture"):
        load_checkpoint(path)
    (tmp_path / "x.safetensors").write_bytes(b"damaged")
    with pytest.raises(ModelError, match="does not match the hash"):
        load_checkpoint(path)
    with pytest.raises(ModelError, match="there is no checkpoint 'y'"):
        load_checkpoint("y")


@pytest.mark.parametrize("name", [name for name in checkpoints.checkpoint_names() if name in recipes.RECIPES])
def test_the_checkpoints_of_the_course_do_what_their_card_says(name):
    card = read_card(name)
    model, vocabulary = load_checkpoint(name)
    recipe = recipes.RECIPES[name]
    test = recipes.load(recipe.dataset).test
    if recipe.dataset == "imdb":
        test, slack = sorted(test, key=lambda example: len(example.tokens))[:300], 0.08
    else:
        slack = 0.003
    accuracy = evaluate(model, make_batches(test, vocabulary))["accuracy"]
    assert accuracy == pytest.approx(card["metrics"]["test_accuracy"], abs=slack)
    if name == "rotten_tomatoes-bilstm-additive":
        assert accuracy >= 0.78


def test_the_train_command(tmp_path, monkeypatch, capsys):
    assert main(["train", "nothing-like-this"]) == 1 and "choose one of" in capsys.readouterr().err
    assert main(["train", "list"]) == 0 and "imdb-bilstm-additive" in capsys.readouterr().out
    recipe = recipes.Recipe("tiny", ClassifierConfig(hidden=8), TrainingConfig(epochs=1))
    monkeypatch.setitem(recipes.RECIPES, "tiny", recipe)
    monkeypatch.setattr(recipes, "load", lambda name: Dataset(name, ("bad", "good"), *[tuple(TEXTS)] * 3))
    recipes.train_checkpoint("tiny", folder=tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"tiny.json", "tiny.safetensors", "tiny.vocabulary.txt"}
    card = read_card(tmp_path / "tiny")
    assert 0 <= card["metrics"]["test_accuracy"] <= 1 and card["command"].endswith("train tiny") and card["versions"]["torch"]
