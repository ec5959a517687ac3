"""What must not surprise: damaged files, hostile answers, a broken environment, models of another precision."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from classifiers import TEXTS, VOCABULARY, small_model
from tiny import save_bert

from course_utils.analysis import adversary, importance, permutation
from course_utils.data import Example, make_batch
from course_utils.errors import AnalysisError, ModelError
from course_utils.exercises import Choice, Exercise, Function, Mistake, Number, Outcome
from course_utils.exercises.submission import _readable
from course_utils.models import AttentionClassifier, AttentionMaps, ClassifierConfig, gate_heads, load_checkpoint, load_encoder
from course_utils.models.checkpoints import save_checkpoint
from course_utils.models.training import TrainingConfig, evaluate, fit
from course_utils.show.display import figure_png
from course_utils.show.geometry import slab
from course_utils.show.heads import head_map


def trainable() -> AttentionClassifier:
    return AttentionClassifier(ClassifierConfig(hidden=8, train_embeddings=True), torch.randn(len(VOCABULARY), 5))


@pytest.mark.parametrize("card", ["", "{", "[]", "3", "{}", json.dumps({"config": {}, "sha256": "x"})])
def test_a_damaged_card_is_told(tmp_path, card):
    save_checkpoint(tmp_path / "x", trainable(), VOCABULARY, {})
    (tmp_path / "x.json").write_text(card)
    with pytest.raises(ModelError, match="x.json"):
        load_checkpoint(tmp_path / "x")


def test_a_relative_path_is_loaded_from_where_it_was_saved(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save_checkpoint("mine/x", trainable(), VOCABULARY, {})
    assert load_checkpoint("mine/x")[1] == VOCABULARY


@pytest.mark.parametrize("content", [b"", b"x" * 100])
def test_a_damaged_resume_file_is_told(tmp_path, content):
    (tmp_path / "r").write_bytes(content)
    examples = [Example(text, i % 2) for i, text in enumerate(TEXTS)]
    with pytest.raises(ModelError, match="damaged"):
        fit(trainable(), examples, examples, VOCABULARY, resume_file=tmp_path / "r")


@pytest.mark.parametrize("wrong", [{"patience": 0}, {"word_dropout": 1.0}, {"learning_rate": float("nan")}, {"batch_tokens": 0}])
def test_training_settings_out_of_range(wrong):
    with pytest.raises(ModelError, match=next(iter(wrong))):
        TrainingConfig(**wrong)


@pytest.mark.parametrize("label", [None, -1, 2])
def test_labels_that_are_no_class(label):
    with pytest.raises(ModelError, match="label"):
        fit(trainable(), [Example("a", label)], [Example("a", 0)], VOCABULARY)


def test_accuracy_of_nothing():
    for batches in ([], [make_batch(["a"], VOCABULARY)]):
        with pytest.raises(ModelError, match="label"):
            evaluate(trainable(), batches)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("measure", [importance.gradient, importance.leave_one_out])
def test_importance_of_half_precision_models(measure, dtype):
    frame = measure(small_model().to(dtype), make_batch(["a b c"], VOCABULARY))
    assert frame["attention"].sum() == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize("experiment", [adversary.exact, adversary.search, permutation.permute])
def test_no_adversary_of_a_model_that_diverged(experiment):
    model = small_model()
    with torch.no_grad():
        model.decoder.weight[0, 0] = torch.nan
    with pytest.raises(AnalysisError, match="nan"):
        experiment(model, make_batch(["a b c"], VOCABULARY))


def test_every_truncation_is_announced_and_gates_of_another_batch_refused(tmp_path):
    encoder = load_encoder(save_bert(tmp_path))
    for _ in range(2):
        with pytest.warns(UserWarning, match="1 of 1 texts are longer"):
            encoder.attend(["good " * 80])
    with gate_heads(encoder.model, torch.ones(5, 2, 3)), pytest.raises(ModelError, match="5 inputs"):
        encoder.attend(["good"])


def test_dollars_in_tokens_are_no_formula():
    tokens = ["$5", "$\\frac$", "_x$"]
    figure_png(slab(tokens, torch.tensor([0.2, 0.3, 0.5]), torch.tensor([-1.0, 0.5, 2.0]), 0.05))
    maps = AttentionMaps.from_matrix(torch.full((3, 3), 1 / 3), tokens)
    figure_png(head_map(maps, 0, 0, title="$\\frac$"))


class Unspeakable(Exception):
    def __str__(self):
        raise RuntimeError


class Equal(float):
    def __eq__(self, other):
        return True

    __hash__ = float.__hash__


def my_double(x):
    return 2 * x


def exercise(key: str, answer, mistake) -> Exercise:
    return Exercise(key, "t", "p", 1, 1, answer, mistakes=(Mistake(mistake, "m"),), hints=("h",))


@pytest.mark.parametrize("error", [Unspeakable(), GeneratorExit(), SystemExit(1), RecursionError()])
def test_no_exception_of_a_student_gets_out(error):
    def answer(x):
        raise error

    result = exercise("double", Function(my_double, cases=((1,),)), lambda x: x).evaluate(answer)
    assert result.outcome is Outcome.WRONG and type(error).__name__ in result.message


@pytest.mark.parametrize("size", [torch.zeros(5_000_000), [0] * 5_000_000])
def test_a_huge_answer_is_named_not_written_out(size):
    result = exercise("double", Function(my_double, cases=((1,),)), lambda x: x).evaluate(lambda x: size)
    assert "5000000" in result.message and len(result.message) < 200


def test_odd_answers_are_wrong_with_a_reason():
    choice = exercise("c", Choice("a", options=("a", "b")), "b")
    for answer in (Equal(7), np.zeros(3), 10**400):
        result = choice.evaluate(answer)
        assert result.outcome is Outcome.WRONG and "should be one of" in result.message
    assert "too large" in exercise("n", Number(0.5), 1.0).evaluate(10**400).message


def test_half_a_character_in_an_error_can_be_written():
    assert _readable({"number": 1, "text": "\ud800"}) == {"number": 1, "text": "?"}


@pytest.mark.parametrize("package", ["pandas", "IPython", "nbformat", "packaging"])
def test_the_doctor_describes_an_environment_without(package):
    code = f"import sys; sys.modules[{package!r}] = None; from course_utils.__main__ import main; main(['doctor'])"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "Python" in printed.stdout and "Traceback" not in printed.stderr
