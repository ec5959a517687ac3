"""Claims, verdicts and runs: the right word for the figures at hand, and nothing measured twice."""

import math
import sys
from functools import partial
from types import SimpleNamespace

import pandas as pd
import pytest

from course_utils.__main__ import main
from course_utils.data import Dataset, Example, Vocabulary
from course_utils.errors import CourseError
from course_utils.models import ClassifierConfig, recipes
from course_utils.models.training import TrainingConfig
from course_utils.reproduce import encoder, report, runs
from course_utils.reproduce.claims import Claim, claims, interval, over_seeds, table, verdict, verdicts
from course_utils.reproduce.measures import measure, sample
from course_utils.reproduce.studies import STUDIES, study_of
from course_utils.reproduce.study import Study
from course_utils.show.claims import claims as claims_figure


def results_of(**values):
    rows = [(recipe, seed, "accuracy", "all", value) for recipe, by_seed in values.items() for seed, value in enumerate(by_seed)]
    return pd.DataFrame(rows, columns=["recipe", "seed", "measure", "group", "value"])


def claim_of(right, relation="greater"):
    return Claim("key", "05", "paper", "claim", ".8", "P", ("a", "accuracy", "all"), relation, right)


def test_interval_by_hand():
    mean, low, high = interval(pd.Series([1.0, 2.0, 3.0]).to_numpy())
    assert (mean, high - mean, mean - low) == pytest.approx((2, 4.3027 / 3**0.5, 4.3027 / 3**0.5), abs=1e-3)
    assert math.isnan(interval(pd.Series([1.0]).to_numpy())[1])


@pytest.mark.parametrize(
    ("values", "relation", "expected"),
    [
        ([0.80, 0.81, 0.82], "greater", "agrees"),
        ([0.80, 0.81, 0.82], "less", "differs"),
        ([0.40, 0.41, 0.42], "greater", "differs"),
        ([0.60, 0.70, 0.90], "greater", "open"),
        ([0.80], "greater", "agrees"),
        ([0.30], "greater", "differs"),
        ([], "greater", "not testable here"),
    ],
)
def test_verdicts_against_a_number(values, relation, expected):
    assert verdict(claim_of(0.7, relation), results_of(a=values))["verdict"] == expected


def test_two_quantities_are_compared_seed_by_seed():
    results = results_of(a=[0.5, 0.7, 0.9], b=[0.4, 0.6, 0.8])  # far apart over seeds, the same gap in each
    found = verdict(claim_of(("b", "accuracy", "all")), results)
    assert found["verdict"] == "agrees" and found["difference"] == pytest.approx(0.1) and found["seeds"] == 3


def test_every_claim_of_the_file_is_well_formed():
    found = claims()
    assert len({claim.key for claim in found}) == len(found) > 20
    for claim in found:
        assert (claim.left is None) == bool(claim.why), claim.key
        for side in (claim.left, claim.right):
            assert not isinstance(side, tuple) or len(side) == 3, claim.key


def test_every_claim_that_can_be_tested_was_measured():
    results = report.everything()
    for claim in claims():
        for side in (claim.left, claim.right):
            if isinstance(side, tuple):
                assert len(over_seeds(results, side)), (claim.key, side)


def test_the_page_is_what_the_kept_results_say(tmp_path):
    report.write(report.everything(), tmp_path / "reproduction.md")
    assert (tmp_path / "reproduction.md").read_text() == report.PAGE.read_text(), (
        "python -m course_utils reproduce --page-only writes it anew"
    )


def test_a_bad_claim_is_named(tmp_path):
    path = tmp_path / "claims.toml"
    path.write_text('[one]\nlesson = "05"\npaper = "p"\nclaim = "c"\npublished = "1"\ncertainty = "X"\n')
    with pytest.raises(CourseError, match="one"):
        claims(path)
    path.write_text('[two]\nlesson = "05"\ncolour = "red"\n')
    with pytest.raises(CourseError, match="two"):
        claims(path)


def test_the_figure_counts_verdicts():
    rows = [vars(claim_of(0.7)) | verdict(claim_of(0.7), results_of(a=values)) for values in ([0.8, 0.81], [0.5, 0.51])]
    assert claims_figure(pd.DataFrame(rows)).axes[0].get_title(loc="left") == "Of 2 tested claims: agrees 1, differs 1"


FILLERS = ("the film is", "the film was long", "was the film", "film", "the long film is")
TEXTS = tuple(Example(f"{filler} {word}", int(word == "good")) for filler in FILLERS for word in ("good", "bad"))


@pytest.fixture
def tiny_recipe(monkeypatch, tmp_path):
    dataset = Dataset("tiny", ("bad", "good"), TEXTS, TEXTS, TEXTS)
    monkeypatch.setattr(recipes, "load", lambda name: dataset)
    monkeypatch.setattr(runs, "load", lambda name: dataset)
    training = TrainingConfig(epochs=3, batch_tokens=40, word_dropout=0.0)
    monkeypatch.setitem(recipes.RECIPES, "tiny", recipes.Recipe("tiny", ClassifierConfig(hidden=8), training))
    monkeypatch.setattr(runs, "FOLDER", tmp_path / "checkpoints")
    return tmp_path


def test_a_finished_run_is_not_done_again_and_a_stopped_one_goes_on(tiny_recipe, monkeypatch):
    work = tiny_recipe / "work"
    first = runs.complete(runs.Run("tiny", 1), work, n_texts=4)
    assert {"accuracy", "tau_gradient", "adversary_max_jsd", "comprehensiveness"} <= set(first["measure"])
    assert (first["seed"] == 1).all() and (first["dataset"] == "tiny").all()
    monkeypatch.setattr(runs, "train_checkpoint", lambda *a, **k: pytest.fail("trained again"))
    monkeypatch.setattr(runs, "measure", lambda *a, **k: pytest.fail("measured again"))
    pd.testing.assert_frame_equal(runs.complete(runs.Run("tiny", 1), work, n_texts=4), first)


def test_side_by_side_gives_the_same(tiny_recipe):
    planned = [runs.Run("tiny", seed) for seed in (1, 2)]
    straight = pd.concat([runs.complete(run, tiny_recipe / "a", n_texts=4) for run in planned])
    together = runs.complete_all(planned, tiny_recipe / "b", n_texts=4, n_jobs=1)
    pd.testing.assert_frame_equal(together, straight.sort_values(runs.KEYS, kind="stable", ignore_index=True), check_dtype=False)


class LocalRay:
    """What the package asks of Ray, without a cluster."""

    @staticmethod
    def is_initialized():
        return True

    @staticmethod
    def remote(**_):
        return lambda function: SimpleNamespace(remote=lambda *given, **named: partial(function, *given, **named))

    @staticmethod
    def get(pending):
        return pending()


def test_a_cluster_gives_the_same(tiny_recipe, monkeypatch):
    planned = [runs.Run("tiny", seed) for seed in (1, 2)]
    here = runs.complete_all(planned, tiny_recipe / "a", n_texts=4, n_jobs=1)
    monkeypatch.setitem(sys.modules, "ray", LocalRay)
    pd.testing.assert_frame_equal(runs.complete_all(planned, tiny_recipe / "b", n_texts=4), here)


def test_new_runs_replace_old_ones_of_the_same_seed(tmp_path):
    path = tmp_path / "runs.csv"
    runs.merge(results_of(a=[0.1, 0.2]), path)
    merged = runs.merge(results_of(a=[0.3]), path)
    assert merged["value"].tolist() == [0.3, 0.2]
    assert table(runs.results(path))["seeds"].tolist() == [2]


def test_a_sample_of_the_encoder_is_measured(monkeypatch):
    monkeypatch.setattr(encoder, "SENTENCES", 3)
    monkeypatch.setattr(encoder, "SHORT_SENTENCES", 2)
    found = encoder.STUDY.measure(0)
    assert {"diagonal", "head_distance", "blank_out"} <= set(found["measure"]) and found["value"].notna().all()


def test_a_study_measures_each_sample_once_and_goes_on(tmp_path, monkeypatch):
    calls = []

    def measured(sample):
        if len(calls) == 1 and sample == 1:
            calls.append("stop")
            raise KeyboardInterrupt
        calls.append(sample)
        return results_of(a=[0.0, 0.5, 1.0]).query("seed == @sample").assign(group=["NA"])

    study = Study("made", measured, samples=3)
    with pytest.raises(KeyboardInterrupt):
        study.complete(tmp_path)
    found = study.complete(tmp_path)
    assert calls == [0, "stop", 1, 2] and found["value"].tolist() == [0, 0.5, 1] and set(found["group"]) == {"NA"}
    monkeypatch.setattr("course_utils.reproduce.study.RESULTS", tmp_path)
    with pytest.raises(CourseError, match="--study made"):
        study.results()
    study.write(found)
    pd.testing.assert_frame_equal(study.results(), found)


def test_every_study_has_its_committed_results():
    for study in STUDIES.values():
        assert study.results()["seed"].nunique() == study.samples, study.name
    with pytest.raises(CourseError, match="encodre"):
        study_of("encodre")


def test_planning():
    assert [run.name for run in runs.plan(["stories-1"], seeds=2)] == [
        "stories-1-bilstm-additive",
        "stories-1-bilstm-additive-seed1",
    ]
    with pytest.raises(CourseError, match="imbd"):
        runs.plan(["imbd"])
    with pytest.raises(CourseError, match="0"):
        runs.plan(seeds=0)


def test_a_model_that_is_not_linear_is_measured_as_far_as_it_can_be(tiny_recipe):
    dataset = recipes.load("tiny")
    model = recipes.new_classifier(ClassifierConfig(hidden=8, decoder="tanh"), vocabulary := checkpoint_vocabulary())
    found = measure(model.eval(), vocabulary, dataset, n_texts=4)
    assert set(found["measure"]) == {"accuracy", "f1"}
    assert sample(TEXTS, 4) == sample(TEXTS, 4) and len(sample(TEXTS, 99)) == len(TEXTS)


def checkpoint_vocabulary():
    return Vocabulary.build(example.tokens for example in TEXTS)


def test_the_command_refuses_an_unknown_data_set(capsys):
    assert main(["reproduce", "--dataset", "imbd"]) == 1
    assert "imbd" in capsys.readouterr().err


def test_verdict_rows_hold_both_sides():
    row = verdicts(report.everything()).set_index("key").loc["rt-accuracy"]
    assert row["left_of"] == ("rotten_tomatoes-bilstm-additive", "f1", "all") and row["right_of"] == 0.7
