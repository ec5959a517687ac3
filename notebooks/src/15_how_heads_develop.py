# %% [markdown]
# # How heads develop
#
# Do heads come to their roles slowly and evenly, or all at once?
#
# **Time** 50 minutes. **Builds on** lesson 02, scores of patterns, and lesson 03, distances between heads. Lesson 13 helps to read
# what is removed here.
#
# Afterwards you will be able to
#
# - follow heads over the checkpoints of a training, with loss and roles on one axis;
# - turn a story such as "random, then divided, then stable" into numbers that could have refuted it;
# - tell a head that *looks* right from the head that the result depends on.

# %%
from dataclasses import replace

import pandas as pd
import torch
from course_utils import exercises
from course_utils.analysis import development
from course_utils.analysis.context import movement
from course_utils.data import load
from course_utils.data.repeats import Repeats, make_repeats
from course_utils.models import AttentionMaps, load_encoder, load_finetuned
from course_utils.reproduce import everything
from course_utils.reproduce.claims import table as over_seeds
from course_utils.reproduce.claims import verdicts
from course_utils.reproduce.development import (
    ONE,
    STUDY,
    TWO,
    held_out,
    new_training,
)
from course_utils.show import layers, show
from course_utils.show.development import (
    divided,
    explore_checkpoints,
    knocked_out,
    roles_and_loss,
    stages,
    windows,
)

ex = exercises.load("15")

# %% [markdown]
# ## Predict first
#
# You will train a small model for 600 steps. At the start no head of it can continue a sequence that repeats itself; at the end some
# head can, and has a score near 1 for it. How many steps lie between a tenth of this score and nine tenths? If roles grow evenly, it
# is most of the 600.

# %%
my_guess = 300

# %% [markdown]
# ## The idea
#
# Take a sequence in which a block of random tokens is said again and again: *c a d b c a d b*. Nothing helps in the first block. From
# then on everything can be known: find the last time you saw the present token, and say what came next. A head that looks there is
# an **induction head** (Olsson et al. 2022).
#
# For a position $t$ let $S_t$ be the positions right after earlier copies of the token at $t$. The head's score is the mean, over
# positions whose block was said before, of the weight it puts there:
#
# $$\text{induction} = \operatorname{mean}_t \sum_{s \in S_t} A[t][s], \qquad S_t = \{\,j + 1 : j < t,\ x_j = x_t\,\}.$$
#
# Here are the two heads of the story on eight tokens, made by hand: one that looks at the previous token, one that looks where
# induction says.

# %%
tokens = list("cadbcadb")
ids = torch.tensor([["abcd".index(token) for token in tokens]])

previous, back = torch.zeros(2, 8, 8)
for t in range(8):
    previous[t, max(t - 1, 0)] = 1
    back[t, t - 3 if t >= 4 else 0] = 1  # one after the copy, four places ago

print("second 'a' is at 5, its copy at 1, so it looks at", int(back[5].argmax()))
by_hand = {}
for name, map_ in (("previous", previous), ("back", back)):
    by_hand[name] = float(torch.stack([map_[t, t - 3] for t in range(4, 8)]).mean())
    print(f"{name:8} induction score {by_hand[name]:.2f}")

# %% [markdown]
# The package gives the same, and for a head that spreads its weight evenly about one part in $T$.

# %%
even = torch.ones(8, 8).tril()
even = even / even.sum(-1, keepdim=True)
maps = AttentionMaps.from_matrix(
    torch.stack([previous, back, even]), tokens, causal=True
)
block = Repeats(ids, period=torch.tensor([4]), vocabulary=4)
scores = development.head_scores(replace(maps, ids=ids), block)
assert abs(scores["induction"][1] - by_hand["back"]) < 1e-6
scores.assign(head=["previous", "back", "even"]).round(2)

# %% [markdown]
# ### Why it takes two heads
#
# How does the second *a* find position 2? Not by what stands there: that is a *d*, and the head must not know in advance that *d* is
# next. It has to find the place **that comes after an a**. So somebody must have written "before me stood an *a*" into position 2, and
# that is what a previous-token head of an earlier layer can do. The induction head then matches its query (*a*) with that note in
# the *keys*. Elhage et al. (2021) call this K-composition.
#
# Two predictions follow. A model of one layer cannot do it. And in a model of two layers, taking the previous-token head's output out
# of the second layer's **keys**, and out of nothing else, must end induction.

# %% [markdown]
# ## On real text: first on sequences that only repeat
#
# Real text comes at the end. We begin where the right answer is known: 64 tokens, blocks of 8 to 32, so that no fixed distance back will do.

# %%
sample = make_repeats(2, generator=torch.Generator().manual_seed(1))
for row, period in zip(sample.ids, sample.period, strict=True):
    print(f"block of {int(period):2}:", *row[:40].tolist(), "...")

# %% [markdown]
# The model has two layers of four heads, and attention only: no feed-forward layers, no normalisation. It sees new sequences at every
# step, so there is nothing to learn by heart. A checkpoint is kept every 20 steps, in memory. You may press the stop button at any time: the
# training goes back to the last checkpoint, and the next call goes on from there.

# %% tags=["nbval-ignore-output"]
training = new_training(seed=0)
training.run(200)
print(f"{training.steps} steps, loss {sum(training.losses[-20:]) / 20:.2f} nats")

# %% tags=["nbval-ignore-output"]
training.run(400)
print(f"{training.steps} steps, loss {sum(training.losses[-20:]) / 20:.2f} nats")

# %% tags=["nbval-ignore-output"]
training.run(600)
print(f"{training.steps} steps, loss {sum(training.losses[-20:]) / 20:.2f} nats")

# %% [markdown]
# ### Loss and roles on one axis
#
# Now every checkpoint reads the same 32 sequences that no training has seen. The loss is split: positions in the first block, where
# nothing can be known, and positions in the repeats.

# %%
repeats = held_out()
found = development.follow(training, repeats)
when = development.phases(found).set_index("curve")
start, end = when.loc["induction head", ["begin", "end"]]

# %% tags=["nbval-ignore-output"]
figure = roles_and_loss(
    found,
    window=(start, end),
    title="Induction comes within a short time, and the loss on repeats falls with it",
)
show(
    figure,
    alt="Three panels over 600 training steps. Above, the loss in the first block stays a little above 4 nats while the loss on repeats "
    "falls from 4 to below 1 within a short grey band around step 190. In the middle, two heads of layer 0 grow a "
    "previous-token score to about a half, two do not; the growth starts in the band and goes on after it. Below, all four heads of "
    "layer 1 jump to induction scores of about .85 in the band.",
)

# %% [markdown]
# The grey band is where the best induction head goes from a tenth to nine tenths of its way. Three things stand out.

# %% tags=["nbval-ignore-output"]
columns = ["begin", "middle", "end", "sharpness"]
print(f"you guessed {my_guess} steps; it took {end - start:.0f}")
when[columns].round(2)

# %%
jump = when.loc["induction head"]
assert jump["sharpness"] < 0.7 and 100 < jump["middle"] < 350
assert abs(when.loc["advantage of repeats", "middle"] - jump["middle"]) < 60
assert abs(when.loc["previous-token head", "begin"] - jump["begin"]) < 60
assert when.loc["previous-token head", "end"] > jump["end"] + 40
last = found.losses.iloc[-1]
assert 4.1 < last["first"] < 5.2 and last["repeated"] < 1
print("the ranges hold")

# %% [markdown]
# - **It is a jump.** *Sharpness* is the length of the change divided by the time of its middle: 1.6 for a straight line, below 1 when
#   the waiting took longer than the change.
# - **The previous-token head and the induction head begin together.** There is no stage at which the first is finished and waits for the
#   second. The first goes on getting sharper long after induction works.
# - **The first block gets no better**, and cannot: its tokens are random, so its loss has a floor at $\ln 64 = 4.16$. It even rises above it:
#   the model is now sure of itself where it should not be.
#
# A fourth is easy to miss: the loss on repeats sinks slowly *before* the band, when no head has a role. A later section says why.

# %% tags=["nbval-ignore-output"]
first_head = development.best_head(found.heads, "previous")
second_head = development.best_head(found.heads, "induction")
short = make_repeats(1, 24, periods=(8, 8), generator=torch.Generator().manual_seed(4))
over_time = {step: training.model(step).attend(short) for step in range(0, 601, 20)}
figure = stages(
    {step: over_time[step] for step in (0, 120, 180, 240, 600)},
    [first_head, second_head],
    title="Nearly even at first; then a diagonal, and stripes one block back",
)
show(
    figure,
    alt="Two rows of five maps of one sequence of 24 tokens with a block of 8. At step 0 both heads are nearly even over all earlier tokens. "
    "By step 240 the head of layer 0 has a diagonal just below the main one, and the head of layer 1 has diagonals that start "
    "after the first block, seven and fifteen places back.",
)

# %% [markdown]
# The diagonal of these maps is nearly perfect, and yet the score of that head stays near one half. A mean over positions hides why. Here is
# the weight on the previous token in the two halves of the 64 positions.

# %% tags=["nbval-ignore-output"]
trained = training.model().attend(repeats).attention[:, 0]
on_previous = trained.diagonal(-1, -2, -1).mean(0)  # heads x positions 1 to 63
halves = pd.DataFrame(
    {
        "positions 1 to 32": on_previous[:, :32].mean(1),
        "positions 33 to 63": on_previous[:, 32:].mean(1),
    }
).rename_axis("head of layer 0")
best = halves.loc[first_head[1]]
assert best["positions 1 to 32"] > best["positions 33 to 63"] + 0.3
halves.round(2)

# %% [markdown]
# It looks back almost always in the first half, and hardly in the second. No block is longer than 32: a note "before me stood an *a*" in the
# first block is all that the induction heads need, and later notes would say the same again. The head learned its role only where it pays.

# %% [markdown]
# ### "Random, then divided, then stable"
#
# That is how the story is usually told. Nobody says what would refute it, so we do, before we look:
#
# 1. **Random**: at the start heads differ from each other as much as unrelated maps would. (If they are alike instead, "random" is the wrong
#    word.)
# 2. **Divided**: the distance between the heads of a layer (JSD, lesson 03) rises, and ends near its highest value. If it falls
#    again, the heads of that layer went *together*.
# 3. **Stable**: at the end, heads move from one checkpoint to the next by less than a tenth of the fastest movement.

# %% tags=["nbval-ignore-output"]
figure = divided(
    found,
    title="Layer 0 divides; layer 1 divides and comes together again",
)
show(
    figure,
    alt="Two panels over 600 steps, a line for each layer. Above, the distance between heads starts near 0.05 nats in both; layer 0 rises to "
    "about 0.37 and still rises slowly, layer 1 rises to about 0.23 at the jump and falls back to 0.15. Below, the movement between "
    "checkpoints has one high peak at the jump and is small before and after, smaller in layer 0 than in layer 1.",
)

# %% tags=["nbval-ignore-output"]
layers_apart = development.division(found).set_index("layer")
layers_apart.round(3)

# %%
spread = found.heads[found.heads["step"] == 0]["spread"]
assert spread.min() > 0.9 and layers_apart["start"].max() < 0.1
assert layers_apart.loc[0, "end"] > 0.85 * layers_apart.loc[0, "peak"]
assert layers_apart.loc[1, "end"] < 0.9 * layers_apart.loc[1, "peak"]
assert (layers_apart["moved_end"] < 0.25 * layers_apart["moved_peak"]).all()
print(f"entropy at the start, of the largest possible: {spread.min():.2f} and more")

# %% [markdown]
# What is found:
#
# 1. Not random but **even**: the weights are random, the maps are nearly uniform, and so all heads are alike.
# 2. **Divided in one layer only.** In layer 0 two heads look back and two do something else. In layer 1 all four end as induction heads; at
#    the end they are nearer to each other than at the jump.
# 3. **Quieter, not still.** Movement falls steeply after the jump. In layer 1 it ends at about a tenth of its peak, just where we drew the
#    line, and the distances of layer 0 still grow.
#
# Of the three words of the story one is wrong and one holds for half of the model.

# %% [markdown]
# ### Does the one need the other?
#
# Two curves that rise together may have nothing to do with each other. So take heads away from the trained model: from everything, or
# only from the keys, the queries or the values of layer 1.

# %% tags=["nbval-ignore-output"]
table = development.knock_out(training.model(), repeats)
figure = knocked_out(
    table, title="What a head of layer 0 writes is needed in the keys, nowhere else"
)
show(
    figure,
    alt="Loss on repeats when each of the eight heads is removed. Removing one head of layer 0 from everything, or from the keys of "
    "layer 1 only, raises the loss from 0.3 to above 3 nats; removing it from queries or values changes nothing. Removing any other "
    "head of layer 0 changes next to nothing, and removing a head of layer 1 raises the loss to less than 1.",
)

# %% tags=["nbval-ignore-output"]
looks = found.heads[found.heads["step"] == training.steps]
table = table.merge(looks[["layer", "head", "previous"]], how="left")
table[table["layer"] < 1].round(2)

# %%
effect = table.set_index(["layer", "head", "part"])["repeated"]
whole = effect[-1, -1, "none"]
added = effect.drop(-1) - whole
needed = int(added[0].unstack("part")["everything"].idxmax())
from_needed = added[0, needed]
assert from_needed["everything"] > 0.5
assert abs(from_needed["key"] - from_needed["everything"]) < 0.3
assert abs(from_needed["query"]) < 0.2 and abs(from_needed["value"]) < 0.2
rows = table.set_index(["layer", "head", "part"])["induction"]
assert rows[0, needed, "key"] < rows[-1, -1, "none"] - 0.2
print("the loss rises through the keys, and only through the keys")

# %% [markdown]
# The prediction of the idea holds exactly: what the head wrote is needed **in the keys**, and neither in the queries nor in the values. That
# is K-composition, shown by taking something away from one reader.
#
# Look at the column *previous* of the other heads of layer 0. One of them looks at the previous token nearly as much, and can be removed
# without any effect. **Looking alike is not being used.** And no single head of layer 1 is needed: there are four, and three still do the work.

# %% [markdown]
# ### Other seeds
#
# One training is one training. The study behind this lesson repeats it from five seeds, and trains a model of one layer beside each
# (`python -m course_utils reproduce --study development`).

# %%
results = STUDY.results()
two = results[results["recipe"] == TWO]
columns = ["measure", "group", "mean", "low", "high", "seeds"]
summary = over_seeds(two)
is_time = summary["measure"].isin(["begin", "middle", "end"])
summary[is_time][columns].round(0)

# %% tags=["nbval-ignore-output"]
figure = windows(
    two,
    title="Five seeds: induction jumps, previous-token heads go on sharpening",
)
show(
    figure,
    alt="Bars for five seeds and three curves: from 10 to 90 percent of the change. The bars of the induction head are short and lie "
    "around step 190; those of the previous-token head start at the same steps and end hundreds of steps later; those of the "
    "advantage of repeats start early and end with the induction head.",
)

# %% [markdown]
# The steps differ little from seed to seed, and what comes with what not at all. The knock-out is another matter. Here is the loss on repeats,
# seed by seed.

# %%
knocked = two[two["measure"] == "loss_without"]
knocked = knocked.pivot(index="seed", columns="group", values="value")
short_names = {
    "nothing": "whole model",
    "previous-token head": "without best",
    "previous-token head, key only": "best, keys",
    "previous-token head, query only": "best, queries",
    "worst other head of its layer": "without worst other",
}
shown = knocked[list(short_names)].rename(columns=short_names)
assert (shown["best, keys"] > shown["best, queries"] + 0.3).all()
shown.round(2)

# %% [markdown]
# *Best* is the head with the highest previous-token score. In every seed it is needed, and only in the keys. But in some trainings a second head
# of the layer carries part of the work (*without worst other*), and once it carries **more** than the one with the highest score. The circuit is the same in
# every training; how many heads share a part of it is not, and the score does not tell.

# %% [markdown]
# And the model of one layer? It has nobody to write into the keys.

# %%
ends = over_seeds(results[results["recipe"].isin([TWO, ONE])])
ends = ends[ends["measure"].isin(["loss", "score"])]
ends = ends.pivot(index=["measure", "group"], columns="recipe", values="mean")
assert ends.loc[("score", "induction head"), ONE] < 0.2
assert 2.9 < ends.loc[("loss", "repeated"), ONE] < 3.4
ends.round(2)

# %% [markdown]
# No induction head, in no seed. Still its loss on repeats is a nat below that on the first block, and that is the slow part of the curve
# above: a head can learn *which* tokens belong to the block without knowing their order. With blocks of 20 tokens on average that is worth
# about $\ln 64 - \ln 20 = 1.2$ nats. So "the model uses its context" and "the model has induction heads" are two statements.

# %% [markdown]
# ### Fine-tuning: the same measure on a real encoder
#
# MiniLM was trained long ago; its heads have their roles. What happens to them when it is fine-tuned to tell good reviews from bad
# ones? For each head, take the JSD between its attention before and after, on the same words. A number in nats needs a yardstick: how
# far the *unchanged* model's attention moves from one sentence to another of the same length (lesson 03).

# %%
reviews = load("rotten_tomatoes")
drawn = torch.randperm(len(reviews.test), generator=torch.Generator().manual_seed(0))
texts = [reviews.test[i].text for i in drawn[:100]]
before, after = load_encoder(), load_finetuned().encoder
shifted = development.shift(before, after, texts)
between = movement(before, texts)

by_layer = pd.DataFrame(
    {
        "fine-tuning": shifted.groupby("layer")["shift"].mean(),
        "another sentence": between.groupby("layer")["movement"].mean(),
    }
)
by_layer.round(2)

# %% tags=["nbval-ignore-output"]
both = pd.concat(
    [
        shifted.assign(change="by fine-tuning", distance=shifted["shift"]),
        between.assign(change="by another sentence", distance=between["movement"]),
    ]
)
figure = layers.lines_by_layer(
    both,
    "distance",
    group="change",
    label="JSD of attention (nats)",
    title="Fine-tuning moves the last layers most, and less than other words do",
)
show(
    figure,
    alt="Two lines over six layers. Attention moves hardly by fine-tuning in layer 0 and more and more towards the last layer; it moves more "
    "from one sentence to another in every layer.",
)

# %%
ratio = by_layer["fine-tuning"] / by_layer["another sentence"]
assert by_layer["fine-tuning"].idxmax() >= 4 and ratio.max() < 1
per_head = shifted.groupby(["layer", "head"], as_index=False)["shift"].mean()
per_head.nlargest(5, "shift").round(2)

# %% [markdown]
# The first layers hardly change; the change grows towards the top. Roles that were found in the pretrained encoder are mostly still
# there in the lower half. For a head of the last layers, look again.

# %% [markdown]
# ## The claim: a phase change
#
# Olsson et al. (2022, argument 1; read in the paper, P) trained language models of many sizes. Within a short window, from about 2.5 to 5
# billion tokens, induction heads form and in-context learning improves abruptly; before it is below 0.15 nats, after it about 0.4 and
# constant. Models of one layer show neither. In small attention-only models, removing induction heads removes almost all of it
# (argument 3, P). Our tokens are random and our steps are 600, so figures cannot be compared; directions can.

# %%
verdict = verdicts(everything())
checked = verdict[verdict["lesson"] == "15"]
pd.set_option("display.max_colwidth", 120)
columns = ["claim", "published", "certainty", "left", "right", "seeds", "verdict"]
checked[columns].set_index("claim").round(2)

# %% [markdown]
# One row of the paper differs, and our task is the likely cause: in blocks of random tokens, to know which ones belong to the block is worth more than
# a nat without any order. The row that is open is the knock-out above: five trainings do not agree.
#
# Two more differences to keep in mind. Their measure of in-context learning is the loss at the 500th token less that at the 50th, on real
# text; ours is the loss in the first block less that in the repeats. And their models learn thousands of things at once, so their jump is a
# bump in a falling curve; ours has nothing else to learn.

# %% [markdown]
# ## Try it yourself
#
# Move the slider through the training and choose a head. When does the head of layer 0 that looks like a twin of the needed one start? (The figure of maps above shows the two heads of the story, in case the slider does not appear in your viewer.)

# %% tags=["nbval-ignore-output"]
explore_checkpoints(over_time, layer=first_head[0], head=first_head[1])

# %% [markdown]
# ## Exercises
#
# A check says whether you are right, and if not, why. `ex.half_way.hint()` helps, `ex.half_way.solution()` shows an answer.

# %%
ex.induction_score


# %% tags=["exercise"]
def my_induction_score(attention, tokens):
    """Mean weight on the tokens that came right after an earlier copy of the present one.

    attention: (T, T) tensor, row i looks at columns up to i; tokens: list of T words.
    A position counts if its token stood earlier; the weights on all its targets add up.
    """
    ...


# %%
induction_score = ex.induction_score.check(my_induction_score).value
print(f"the head made by hand: {induction_score(back, tokens):.2f}")

# %%
ex.half_way


# %% tags=["exercise"]
def my_half_way(steps, values):
    """The step at which a growing curve has gone half of the way from its first to its last value.

    steps, values: lists of the same length; between two points the curve is a straight line.
    """
    ...


# %%
ex.half_way.check(my_half_way)

# %%
ex.look_alike

# %% tags=["exercise"]
my_look_alike = ...

# %%
ex.look_alike.check(my_look_alike)

# %%
ex.progress()

# %% [markdown]
# ## What to take away
#
# - On this task roles come in a jump, and the loss falls in the same jump. The two heads of the circuit begin together.
# - "Random, divided, stable" became three measures. Here it is *even*, *divided in one layer only*, and *quieter*.
# - A circuit is shown by taking a head away from one reader, not by a score. Two heads with nearly the same score can be worth everything
#   and nothing.
# - A model can use its context without induction heads: the model of one layer does.
# - Fine-tuning leaves the lower layers of MiniLM almost as they were and moves the upper ones, less than other words would.

# %% [markdown]
# ## What this does not show
#
# - The sequences have one regularity. How heads share the work when there are thousands of them is not seen here.
# - Where a curve "ends" depends on when we stopped. Layer 0 was still changing.
# - Removing a head measures the model as it is. A model trained without it might find another way.
# - The steps of one recipe: with another learning rate or batch the jump comes at another time.
# - One fine-tuning, one task. How far attention moved says nothing about which move made the accuracy.

# %% [markdown]
# ## Further reading
#
# - Olsson, C., Elhage, N., Nanda, N. et al. (2022). In-context Learning and Induction Heads. *Transformer Circuits Thread*,
#   arXiv:2209.11895.
# - Elhage, N., Nanda, N., Olsson, C. et al. (2021). A Mathematical Framework for Transformer Circuits. *Transformer Circuits Thread*.
#   Attention-only models, and how heads compose.
# - Singh, A. K., Moskovitz, T., Hill, F., Chan, S. C. Y. & Saxe, A. M. (2024). What needs to go right for an induction head? A mechanistic
#   study of in-context learning circuits and their formation. *ICML*. Parts of the circuit held fixed during training.
# - Kovaleva, O., Romanov, A., Rogers, A. & Rumshisky, A. (2019). Revealing the Dark Secrets of BERT. *EMNLP-IJCNLP*. Attention before and after
#   fine-tuning.
