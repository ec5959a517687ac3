"""A fine-tuned encoder: training that can be resumed, and a checkpoint that is a small change to the encoder."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from tiny import TEXTS, save_bert, save_gpt2

from course_utils.__main__ import main
from course_utils.data import Dataset, Example, load
from course_utils.errors import DataError, ModelError
from course_utils.models import EncoderClassifier, finetuning, load_checkpoint, load_encoder, load_finetuned, logits_of, read_card
from course_utils.models.finetuned import save_finetuned
from course_utils.models.finetuning import FinetuningConfig, fine_tune
from course_utils.models.lowrank import apply_change, change_of

EXAMPLES = [Example(text, int("good" in text)) for text in TEXTS] * 3
CONFIG = FinetuningConfig(epochs=3, batch_size=4, learning_rate=1e-2)


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return save_bert(tmp_path_factory.mktemp("base"))


def fresh(base) -> EncoderClassifier:
    return EncoderClassifier(load_encoder(base))


def weights(classifier) -> torch.Tensor:
    return torch.cat([tensor.detach().flatten() for tensor in classifier.state_dict().values()])


@pytest.fixture(scope="module")
def tuned(base):
    classifier = fresh(base)
    fine_tune(classifier, EXAMPLES, EXAMPLES, CONFIG)
    return classifier


def test_a_low_rank_change_is_as_near_as_it_can_be():
    generator = torch.Generator().manual_seed(0)
    before = {"matrix": torch.randn(40, 60, generator=generator), "bias": torch.zeros(5), "same": torch.ones(3)}
    after = {
        "matrix": before["matrix"] + 0.01 * torch.randn(40, 60, generator=generator),
        "bias": torch.ones(5),
        "same": torch.ones(3),
    }
    parts = change_of(before, after, 16)
    assert set(parts) == {"matrix:left", "matrix:right", "matrix:scale", "bias:change"} and parts["matrix:left"].shape == (40, 16)
    changed = apply_change(before, parts)
    left_out = torch.linalg.svdvals(after["matrix"] - before["matrix"])[16:].square().sum().sqrt()
    distance = (changed["matrix"] - after["matrix"]).norm()
    assert distance.item() == pytest.approx(left_out.item(), rel=1e-3) and torch.equal(changed["bias"], after["bias"])


def test_a_change_of_that_rank_comes_back_up_to_rounding():
    generator = torch.Generator().manual_seed(1)
    before = torch.randn(50, 50, generator=generator)
    after = before + 0.01 * torch.randn(50, 3, generator=generator) @ torch.randn(3, 50, generator=generator)
    changed = apply_change({"w": before}, change_of({"w": before}, {"w": after}, 3))["w"]
    assert (changed - after).norm() < 0.01 * (after - before).norm()  # rounding to 255 steps


def test_changes_that_do_not_fit_are_refused():
    with pytest.raises(ModelError, match="rank is 0"):
        change_of({}, {}, 0)
    for parts in (
        {"w:left": torch.ones(4, 2), "w:right": torch.ones(2, 4)},
        {"w:change": torch.ones(3)},
        {"v:change": torch.ones(4)},
    ):
        with pytest.raises(ModelError, match="change of"):
            apply_change({"w": torch.zeros(4, 4)}, parts)


def test_an_untrained_head_finds_every_class_as_likely(base):
    assert (logits_of(fresh(base).eval(), TEXTS) == 0).all()


def test_it_learns_and_the_embeddings_stay(base, tuned):
    start = fresh(base).eval().state_dict()
    assert finetuning.evaluate(tuned, EXAMPLES)["accuracy"] == 1.0 and not tuned.training
    for name, tensor in tuned.state_dict().items():
        assert torch.equal(tensor, start[name]) == (".embeddings." in f".{name}" or ".pooler." in f".{name}"), name


def test_logits_do_not_depend_on_batches_and_keep_the_order(tuned):
    together = logits_of(tuned, TEXTS)
    alone = torch.cat([logits_of(tuned, [text]) for text in TEXTS])
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=0)
    torch.testing.assert_close(logits_of(tuned, TEXTS, token_budget=8), alone, atol=1e-5, rtol=0)
    torch.testing.assert_close(logits_of(tuned, TEXTS[::-1]), alone.flip(0), atol=1e-5, rtol=0)
    assert not together.requires_grad and together.shape == (len(TEXTS), 2)
    torch.testing.assert_close(tuned(tuned.encoder.pieces(TEXTS)), together, atol=1e-5, rtol=0)


def test_a_seed_repeats_a_run(base):
    runs = []
    for seed in (0, 0, 1):
        classifier = fresh(base)
        fine_tune(classifier, EXAMPLES, EXAMPLES, FinetuningConfig(epochs=1, batch_size=4, seed=seed))
        runs.append(weights(classifier))
    assert torch.equal(runs[0], runs[1]) and not torch.equal(runs[0], runs[2])


@pytest.mark.parametrize("stop_after", [1, 5, 7])
def test_an_interrupted_run_goes_on_to_the_same_end(tmp_path, monkeypatch, base, stop_after):
    straight = fresh(base)
    expected = fine_tune(straight, EXAMPLES, EXAMPLES, CONFIG)
    resume_file = tmp_path / "run.resume.safetensors"
    steps, train_step = [], finetuning._train_step

    def interrupted_step(*arguments):
        if len(steps) == stop_after:
            raise KeyboardInterrupt
        steps.append(1)
        return train_step(*arguments)

    monkeypatch.setattr(finetuning, "_train_step", interrupted_step)
    history = fine_tune(fresh(base), EXAMPLES, EXAMPLES, CONFIG, resume_file=resume_file, save_every=1)
    assert history.attrs["interrupted"] and resume_file.exists()
    monkeypatch.setattr(finetuning, "_train_step", train_step)
    resumed = fresh(base)
    history = fine_tune(resumed, EXAMPLES, EXAMPLES, CONFIG, resume_file=resume_file, save_every=1)
    assert torch.equal(weights(resumed), weights(straight)) and history.equals(expected)
    assert len(history) == 3 and list(tmp_path.iterdir()) == []


def test_a_resume_file_of_another_run_or_damaged_is_refused(tmp_path, monkeypatch, base):
    resume_file = tmp_path / "run.resume.safetensors"
    monkeypatch.setattr(finetuning.Path, "unlink", lambda *_, **__: None)
    fine_tune(fresh(base), EXAMPLES, EXAMPLES, CONFIG, resume_file=resume_file)
    with pytest.raises(ModelError, match="another run"):
        fine_tune(fresh(base), EXAMPLES, EXAMPLES, FinetuningConfig(epochs=4), resume_file=resume_file)
    with pytest.raises(ModelError, match="another run"):
        fine_tune(fresh(base), EXAMPLES[1:], EXAMPLES, CONFIG, resume_file=resume_file)
    resume_file.write_bytes(b"damaged")
    with pytest.raises(ModelError, match="is damaged"):
        fine_tune(fresh(base), EXAMPLES, EXAMPLES, CONFIG, resume_file=resume_file)


def test_the_learning_rate_rises_and_falls():
    rates = np.array([finetuning._learning_rate(FinetuningConfig(epochs=2, warm_up=0.2), step, 50) for step in range(100)])
    assert 15 <= rates.argmax() <= 25 and rates.max() == pytest.approx(5e-5, rel=0.05)
    assert rates[0] < 5e-6 and 0 < rates[-1] < 5e-6


def test_every_text_is_read_once_an_epoch():
    batches = finetuning._groups_by_length(EXAMPLES, CONFIG, 0)
    assert sorted(np.concatenate(batches)) == list(range(len(EXAMPLES))) and max(map(len, batches)) <= 4


@pytest.mark.parametrize(
    ("train", "dev"), [([], EXAMPLES), (EXAMPLES, []), ([Example("good")], EXAMPLES), ([Example("good", 2)], EXAMPLES)]
)
def test_texts_that_cannot_be_learnt_from_are_refused(base, train, dev):
    with pytest.raises(ModelError, match="text"):
        fine_tune(fresh(base), train, dev, CONFIG)


@pytest.mark.parametrize("wrong", [{"epochs": -1}, {"batch_size": 0}, {"learning_rate": 0.0}, {"warm_up": 1.0}, {"seed": -1}])
def test_settings_out_of_range_are_refused(wrong):
    with pytest.raises(ModelError, match="cannot be"):
        FinetuningConfig(**wrong)


def test_models_that_cannot_classify_are_refused(tmp_path, base, tuned):
    with pytest.raises(ModelError, match="no \\[CLS\\]"):
        EncoderClassifier(load_encoder(save_gpt2(tmp_path / "gpt2")))
    with pytest.raises(ModelError, match="2 classes or more"):
        EncoderClassifier(load_encoder(base), 1)
    with pytest.raises(ModelError, match="training mode"):
        logits_of(fresh(base).train(), TEXTS)
    with pytest.raises(DataError):
        logits_of(tuned, [])


def test_a_checkpoint_comes_back(tmp_path, base, tuned):
    save_finetuned(tmp_path / "x", tuned, base, {"command": "test"}, rank=3)
    loaded = load_finetuned(tmp_path / "x")
    full = load_finetuned_at_rank(tmp_path, tuned, base, 12)
    off = [(logits_of(model, TEXTS) - logits_of(tuned, TEXTS)).abs().max().item() for model in (loaded, full)]
    assert off[1] < 0.02 and off[1] < off[0]
    assert not loaded.training and not any(weight.requires_grad for weight in loaded.parameters())
    assert read_card(tmp_path / "x")["command"] == "test"


def load_finetuned_at_rank(folder, tuned, base, rank):
    save_finetuned(folder / f"rank{rank}", tuned, base, {}, rank=rank)
    return load_finetuned(folder / f"rank{rank}")


def test_a_checkpoint_that_does_not_fit_is_refused(tmp_path, base, tuned):
    path, card_path = tmp_path / "x", tmp_path / "x.json"
    save_finetuned(path, tuned, base, {}, rank=2)
    card = json.loads(card_path.read_text())

    def with_card(**changes):
        card_path.write_text(json.dumps(card | changes))

    other = save_bert(tmp_path / "other", seed=3)
    with_card(config=card["config"] | {"base": str(other)})
    with pytest.raises(ModelError, match="another version of the encoder"):
        load_finetuned(path)
    larger = save_bert(tmp_path / "larger", heads=4)
    from course_utils.models.finetuned import weights_hash

    with_card(config=card["config"] | {"base": str(larger)}, base_sha256=weights_hash(load_encoder(larger).model.state_dict()))
    with pytest.raises(ModelError, match="another architecture"):
        load_finetuned(path)
    with_card(config=card["config"] | {"n_classes": 3})
    with pytest.raises(ModelError, match="another architecture"):
        load_finetuned(path)
    with_card(config={})
    with pytest.raises(ModelError, match="another architecture"):
        load_finetuned(path)
    with_card()
    (tmp_path / "x.safetensors").write_bytes(b"damaged")
    with pytest.raises(ModelError, match="does not match the hash"):
        load_finetuned(path)
    with pytest.raises(ModelError, match="there is no checkpoint"):
        load_finetuned("nothing-like-this")
    with pytest.raises(ModelError, match="no fine-tuned encoder"):
        load_finetuned("rotten_tomatoes-bilstm-additive")
    with pytest.raises(ModelError, match="load_finetuned"):
        load_checkpoint(path)


def tiny_recipe(monkeypatch, base):
    """A recipe of two trainings on the examples, whose change is stored in full."""
    trainings = (CONFIG, replace(CONFIG, seed=1, batch_size=3))
    monkeypatch.setitem(finetuning.FINETUNED, "tiny", finetuning.Finetuning("tiny", str(base), trainings, rank=1000))
    monkeypatch.setattr(finetuning, "load", lambda name: Dataset(name, ("bad", "good"), *[tuple(EXAMPLES)] * 3))
    return trainings


def test_the_checkpoint_is_the_mean_of_its_trainings_also_when_the_second_is_interrupted(tmp_path, monkeypatch, base):
    parts = []
    for training in tiny_recipe(monkeypatch, base):
        parts.append(fresh(base))
        fine_tune(parts[-1], EXAMPLES, EXAMPLES, training)
    train_step, steps = finetuning._train_step, []

    def stopping(*arguments):
        steps.append(arguments)
        if len(steps) == CONFIG.epochs * math.ceil(len(EXAMPLES) / CONFIG.batch_size) + 4:
            raise KeyboardInterrupt
        return train_step(*arguments)

    monkeypatch.setattr(finetuning, "_train_step", stopping)
    history = finetuning.train_finetuned("tiny", folder=tmp_path)
    assert history.attrs["interrupted"] and not (tmp_path / "tiny.json").exists()
    history = finetuning.train_finetuned("tiny", folder=tmp_path)
    assert history["training"].tolist() == [0, 0, 0, 1, 1, 1] and not history.attrs["interrupted"]
    loaded = load_finetuned(tmp_path / "tiny")
    torch.testing.assert_close(weights(loaded), (weights(parts[0]) + weights(parts[1])) / 2, atol=1e-3, rtol=0)


def test_the_train_command(tmp_path, monkeypatch, capsys, base):
    assert main(["train", "list"]) == 0 and "rotten_tomatoes-minilm" in capsys.readouterr().out
    tiny_recipe(monkeypatch, base)
    finetuning.train_finetuned("tiny", folder=tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"tiny.json", "tiny.safetensors"}
    card = read_card(tmp_path / "tiny")
    assert 0 <= card["metrics"]["test_accuracy"] <= 1 and card["command"].endswith("train tiny") and card["versions"]["torch"]
    with pytest.raises(ModelError, match="no recipe"):
        finetuning.train_finetuned("nothing-like-this", folder=tmp_path)


def test_the_checkpoint_of_the_course_is_small_and_does_what_its_card_says():
    card = read_card("rotten_tomatoes-minilm")
    classifier = load_finetuned()
    assert card["metrics"]["test_accuracy"] >= 0.84
    assert (finetuning.FOLDER / "rotten_tomatoes-minilm.safetensors").stat().st_size < 3_000_000
    test = sorted(load("rotten_tomatoes").test, key=lambda example: len(example.tokens))[:300]
    accuracy = finetuning.evaluate(classifier, test)["accuracy"]
    assert 0.80 <= accuracy <= 0.92
