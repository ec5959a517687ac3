"""The claims of lesson 15: a small model trained from several seeds, with two layers and with one, and what fine-tuning moves."""

import pandas as pd
import torch

from course_utils.analysis import development
from course_utils.analysis.context import movement
from course_utils.data import load
from course_utils.data.repeats import Repeats, make_repeats
from course_utils.models import load_encoder, load_finetuned
from course_utils.models.attention_only import AttentionOnlyConfig, Training
from course_utils.reproduce.study import Study, Values, drawn, rows

TWO, ONE, TUNED = "attention-only-2", "attention-only-1", "minilm-finetuned"
STEPS, LEARNING_RATE = 600, 5e-3
HELD_OUT_SEED, SEQUENCES, SENTENCES = 12_345, 32, 100


def new_training(seed: int, layers: int = 2) -> Training:
    """The training of lesson 15, not yet begun."""
    return Training(AttentionOnlyConfig(layers=layers), seed=seed, learning_rate=LEARNING_RATE)


def held_out() -> Repeats:
    """Sequences that no training of the course is given, the same for all."""
    return make_repeats(SEQUENCES, generator=torch.Generator().manual_seed(HELD_OUT_SEED))


def measure(seed: int) -> pd.DataFrame:
    """One seed of both models, and one of five samples of sentences for fine-tuning: rows of the study."""
    found = {TWO: _two_layers(seed), ONE: _one_layer(seed), TUNED: _fine_tuning(seed)}
    counts = {TWO: SEQUENCES, ONE: SEQUENCES, TUNED: SENTENCES}
    return pd.concat([rows(recipe, seed, values, counts[recipe]) for recipe, values in found.items()], ignore_index=True)


def _two_layers(seed: int) -> Values:
    training, repeats = new_training(seed).run(STEPS, progress=False), held_out()
    followed = development.follow(training, repeats)
    values = _ends(followed)
    for row in development.phases(followed).to_dict("records"):
        values |= {(part, row["curve"]): row[part] for part in ("begin", "middle", "end", "sharpness")}
    for row in development.division(followed).to_dict("records"):
        layer = f"layer {row['layer']:.0f}"
        values |= {("distance", f"{layer}, {part}"): row[part] for part in ("start", "peak", "end")}
        values["kept", layer] = row["end"] / row["peak"]
        values |= {("moved", f"{layer}, {part}"): row[f"moved_{part}"] for part in ("peak", "end")}
    return values | _without(training, repeats, development.best_head(followed.heads, "previous"))


def _without(training: Training, repeats: Repeats, previous: tuple[int, int]) -> Values:
    """Loss on repeats and best induction score without the previous-token head, or without another of its layer."""
    table = development.knock_out(training.model(), repeats)
    mine = (table["layer"] == previous[0]) & (table["head"] == previous[1])
    others = (table["layer"] == previous[0]) & (table["head"] != previous[1]) & (table["part"] == "everything")
    chosen = {"nothing": table[table["part"] == "none"], "another head of its layer": table[others]}
    chosen |= {"previous-token head": table[mine & (table["part"] == "everything")]}
    chosen |= {f"previous-token head, {part} only": table[mine & (table["part"] == part)] for part in ("query", "key", "value")}
    values = {("loss_without", name): some["repeated"].mean() for name, some in chosen.items()}
    values |= {("induction_without", name): some["induction"].mean() for name, some in chosen.items()}
    return values | {("loss_without", "worst other head of its layer"): table[others]["repeated"].max()}


def _one_layer(seed: int) -> Values:
    training = new_training(seed, layers=1).run(STEPS, progress=False)
    training.checkpoints = {step: training.checkpoints[step] for step in (0, STEPS)}
    return _ends(development.follow(training, held_out()))


def _ends(followed: development.Development) -> Values:
    """Losses and best scores at the end of training."""
    values = {("loss", name): followed.losses[name].iloc[-1] for name in ("first", "repeated", "advantage")}
    last = followed.heads[followed.heads["step"] == followed.heads["step"].max()]
    values |= {("score", "previous-token head"): last["previous"].max(), ("score", "induction head"): last["induction"].max()}
    return values


def _fine_tuning(sample: int) -> Values:
    """How far attention moves by fine-tuning, beside how far it moves from one sentence to another."""
    texts = [example.text for example in load("rotten_tomatoes").test]
    texts = drawn(texts, sample)[:SENTENCES]
    before = load_encoder()
    moved = development.shift(before, load_finetuned().encoder, texts).groupby("layer")["shift"].mean()
    yardstick = movement(before, texts).groupby("layer")["movement"].mean()
    values = {("shift", f"layer {layer}"): value for layer, value in moved.items()}
    values |= {("between_sentences", f"layer {layer}"): value for layer, value in yardstick.items()}
    return values | {("shift", "all"): moved.mean(), ("between_sentences", "all"): yardstick.mean()}


STUDY = Study("development", measure)
