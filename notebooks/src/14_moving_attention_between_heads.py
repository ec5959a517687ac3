# %% [markdown]
# # Moving attention between heads
#
# Can the work of one head be given to another, and the model predict the same?
#
# **Time** 45 minutes. **Builds on** lesson 02 (the shapes of maps), lesson 03 (a layer is a sum over heads) and lesson 08 (attention
# with the same prediction).
#
# Afterwards you will be able to
#
# - count the directions in which attention can move unseen, and measure how far it can really go;
# - tell a change of names from a change of jobs;
# - give a head another head's map, and judge "head A does X" by what is left of it.

# %%
import numpy as np
import pandas as pd
import torch
from course_utils import exercises
from course_utils.analysis import freedom, heads, moving, patterns, relocation
from course_utils.data import load
from course_utils.models.finetuned import load_finetuned
from course_utils.models.heads import output_weights
from course_utils.models.moving import exchanged, read_head, use_heads
from course_utils.reproduce import everything
from course_utils.reproduce.claims import verdicts
from course_utils.show import curves, show
from course_utils.show import moving as pictures
from course_utils.show.claims import claims as claims_figure

ex = exercises.load("14")

# %% [markdown]
# ## Predict first
#
# In this encoder head 0-2 looks at the previous token and at nothing else. Suppose it is made to look at all tokens evenly, and a head
# of another layer is made to look at the previous token in its place. How much will the probability of the median review change? Write down
# a number between 0 and 1.

# %%
my_guess = 0.2

# %% [markdown]
# ## The idea
#
# A head takes a row of attention $a$ over $T$ tokens and writes $a V$, where row $j$ of $V$ is what it would write from token $j$ alone
# (the value, sent through the output projection). The value has $D$ dimensions, so $V$ has rank $D$ at most. Any $d$ with
#
# $$d\,V = 0$$
#
# can be added to $a$, and nobody downstream can tell. These $d$ form the **left null space** of $V$, of dimension at least $T - D$, or at
# least $T - D - 1$ if the row is still to sum to 1. Brunner et al. (2020) conclude that attention is not *identifiable* in texts longer than a head's dimension,
# and propose **effective attention**: the row without its part in the null space.
#
# ### Four tokens by hand
#
# Values of two numbers, so $4 - 2 - 1 = 1$ direction that keeps output and sum.

# %%
words = ["a", "dull", "but", "film"]
a = torch.tensor([0.1, 0.6, 0.2, 0.1], dtype=torch.float64)
V = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.0, 0.0]]).double()

d = torch.tensor([1.0, 1.0, -1.0, -1.0], dtype=torch.float64)
print("d V    ", (d @ V).tolist(), " sum of d", d.sum().item())
for step in (-0.1, 0.1, 0.3):
    print(f"step {step:4}: row {[round(x, 2) for x in (a + step * d).tolist()]}")
    assert torch.allclose((a + step * d) @ V, a @ V)
basis = freedom.null_space(V, sum_to_one=True)
assert basis.shape == (1, 4) and torch.allclose(basis[0].abs(), d.abs() / 2)

# %% [markdown]
# All three rows have the same output. The last is no attention: it has negative weights. So the number of directions says too much:
# weights are not negative, and along $d$ the row can go only from -0.1 to 0.1. How far a row can go is a linear programme, and the
# package solves it for each token: the smallest and the largest weight with the same output.

# %%
found = freedom.furthest(a, V)
table = pd.DataFrame(
    {
        "weight": a,
        "effective": freedom.effective_attention(a, V),
        "smallest": found.low,
        "largest": found.high,
    },
    index=words,
)
assert np.allclose(found.low, a - 0.1 * d.abs())
table.round(2)

# %% [markdown]
# Effective attention has a negative weight and does not sum to 1. It is a projection, not a distribution: read it as "what of the row the output
# depends on", never as shares.
#
# ### Across heads
#
# A layer adds up what its heads write. Could head B's attention make up for head A's? Only if the two write into directions that overlap.
# Stack the output matrices of the 12 heads of a layer: 12 times 32 rows, in a space of 384.

# %%
classifier = load_finetuned()
encoder = classifier.encoder
matrices = output_weights(encoder.model).double()  # (layers, heads, 32, 384)
ranks = torch.linalg.matrix_rank(matrices.flatten(1, 2))
print("rank of all heads' outputs together, layer by layer:", ranks.tolist())
assert (ranks == 384).all()

# %% [markdown]
# Full rank: every head has 32 directions of its own, so the layer's output determines what each head wrote. *Attention alone* cannot move
# between heads, not by any amount. For that the values have to change, too.

# %% [markdown]
# ## On real text
#
# The model is the encoder fine-tuned on Rotten Tomatoes, and reads its decision from [CLS]. First, the directions in 40 reviews.

# %%
reviews = load("rotten_tomatoes")
rng = np.random.default_rng(0)
fit_texts = [reviews.train[i].text for i in rng.permutation(len(reviews.train))[:80]]
held_out = [reviews.test[i].text for i in rng.permutation(len(reviews.test))[:60]]

free = freedom.freedom(encoder, held_out[:40])
long = free[free["n_tokens"] > 33]
print(f"texts of more than 33 tokens: {long['input'].nunique()} of 40")
print(f"share hidden there, median head: {long['hidden'].median():.2f}")
assert (free["free_sum"] >= (free["n_tokens"] - 33).clip(lower=0)).all()
assert free.loc[free["n_tokens"] <= 32, "hidden"].median() < 0.01

# %% tags=["nbval-ignore-output"]
figure = pictures.freedom(
    free,
    head_size=32,
    title="Above 33 tokens each token adds a direction; most of attention's norm is hidden",
)
show(
    figure,
    alt="Left: the number of free directions is 0 up to 33 tokens and then grows by one with each token, for all heads but one that has a direction more at 33 tokens. Right: the "
    "share of attention's norm in the null space is 0 up to 32 tokens, about a third at 33 and about three quarters beyond.",
)

# %% [markdown]
# The rule is a floor, and nearly always met: one head at 33 tokens has a direction more. The right side looks dramatic: a few tokens too many, and most of a map's norm is in the null space. But is
# all this weight *free to go*? Three heads, the longest of these reviews and one of medium length, the row of the eighth token.

# %%
lengths = free.drop_duplicates("input").set_index("input")["n_tokens"]
longest = int(lengths.idxmax())
medium = int((lengths - 40).abs().idxmin())
rows, kept = [], {}
for text in (medium, longest):
    maps = encoder.attend([held_out[text]], states=True)
    for layer, head in ((0, 2), (1, 5), (5, 3)):
        row = maps.attention[0, layer, head, 7]
        values = freedom.written(encoder, maps, layer, head)[0]
        far = freedom.furthest(row, values)
        kept[text, layer, head] = maps.tokens[0], row, far
        directions = len(freedom.null_space(values, sum_to_one=True))
        name, width = f"{layer}-{head}", (far.high - far.low).max()
        rows.append([len(row), name, directions, row.max(), width, far.tvd, far.bound])
columns = ["tokens", "head", "directions", "largest weight", "widest range"]
table = pd.DataFrame(rows, columns=[*columns, "moves at least", "at most"])
table["largest weight"] = table["largest weight"].astype(float)
assert table.loc[table["head"] == "0-2", "at most"].max() < 0.02
table.round(2)

# %% tags=["nbval-ignore-output"]
tokens, row, far = kept[longest, 1, 5]
figure = pictures.row_range(
    tokens,
    row,
    far,
    title=f"Head 1-5: this row can move by at least {far.tvd:.2f}, at most {far.bound:.2f} (TVD)",
)
show(
    figure,
    alt="A row of attention over the tokens of a long review as dots, with the range that each weight may take while the head's output is the "
    "same as a bar, and the furthest row that was found as crosses. Several weights can go to zero or to several times their size.",
)

# %% [markdown]
# Head 0-2 has as many free directions as the others and cannot move at all: its row is one weight of nearly 1, a corner of the simplex, and every
# direction would need a negative weight somewhere. A spread-out row can move a long way. The *number* of directions depends on the
# length alone; how far a row can go depends on how peaked it is.
#
# The last two columns enclose the largest distance (TVD): one is reached by a row that was found, the other no row can exceed. The
# ranges of single weights are exact.

# %% [markdown]
# ### Other names, the same function
#
# Now the values. The simplest move needs no computation: exchange *all* weights of two heads of a layer. The sum does not care.

# %%
swap = exchanged(encoder.model, 0, 2, 5)
layer = moving.layer_change(encoder, held_out[:30], swap)["change"].max()
output = moving.prediction_change(classifier, held_out[:30], swap)["change"].max()
assert max(layer, output) < 1e-5
print("layer's output and probability: no change above 0.00001")

# %% [markdown]
# So "head 0-2 looks at the previous token" is, to begin with, a statement with an arbitrary number in it. Nothing about jobs has moved:
# the head took its values along.
#
# ### The map of one, the work of the other
#
# The real question: head B attends *exactly as A does*, and still writes what it wrote. Let $A_A, A_B$ be the two maps and $X$ the
# layer's states. We look for values $W$ with
#
# $$A_A X W = A_B X W_B .$$
#
# For one text this is $T$ rows of equations with 384 unknowns a column. If $A_A$ can be inverted there is an exact solution, whatever the heads do. Then
# the same with *one* $W$ for 4, 16 and 64 texts, and a look at texts that were not fitted.

# %%
counts = moving.by_number_of_texts(
    encoder, fit_texts[:64], held_out[:20], 1, 5, [8], numbers=(1, 4, 16, 64)
)
middle = counts.groupby(["n_texts", "seen"])["change"].median().unstack()
assert middle.loc[1, "fitted"] < 1e-3 and middle.loc[1, "held out"] > 1
assert middle.loc[64, "held out"] < middle.loc[4, "held out"] / 10
middle.map(lambda value: "< 0.001" if value < 0.001 else f"{value:.1g}")

# %% tags=["nbval-ignore-output"]
figure = curves(
    counts.assign(change=np.log10(counts["change"].clip(lower=1e-6))),
    "n_texts",
    "change",
    group="seen",
    log=True,
    title="Exact for a few texts and useless for others; for many texts, a rough fit for all",
    xlabel="texts that one change of the values was fitted on",
    ylabel="change of the layer's output (log10 of share)",
)
show(
    figure,
    alt="Two lines over the number of fitted texts. On the fitted texts the change of the layer's output is near zero for one and four "
    "texts and rises; on held-out texts it is far above the output itself at first and falls below it at 64 texts.",
)

# %% [markdown]
# Up to about 385 tokens (384 dimensions and a bias) a single change of weights does it exactly, for these texts. On other texts the
# layer's output is then wrong by tens of times its own size. This is the warning of this lesson: "for this text the attention can be moved with
# the same output" is true for nearly any map, and says nothing about the model. With more tokens than unknowns exactness ends, and
# the fit gets better elsewhere, though it is rough still.
#
# ### Does it matter which head's map it was?
#
# A head is a small part of a model. So move more: let *all other heads of layer 1* attend as head 1-5 does, with values fitted on 80
# texts, and compare with three controls on 60 held-out reviews: the eleven heads removed; the map taken over with the values kept; and *even* attention in
# place of 1-5's, with fitted values.

# %%
others = [head for head in range(encoder.n_heads) if head != 5]
one = moving.ways(classifier, fit_texts, held_out, 1, 5, [8])
all_others = moving.ways(classifier, fit_texts, held_out, 1, 5, others)


def summary(frame):
    by_way = frame.groupby("way", sort=False)
    parts = by_way["change"].agg(["median", "max"]), by_way["flipped"].mean()
    return pd.concat(parts, axis=1)


sizes = pd.concat({"head 1-8": summary(one), "11 heads": summary(all_others)}, axis=1)
sizes.round(2)

# %% [markdown]
# Removing one head, or giving it any map at all, goes unnoticed: that head 1-8 "can do its work with 1-5's map" is true and empty. With
# eleven heads the median review hardly notices either, but for 3 to 8 reviews in a hundred another class is predicted, and the largest change is near one half.
# Look down the columns: the ways differ by a few reviews of 60. Fitted values do no better than removal here, values that were kept do best, and even attention
# does as well as 1-5's map. So nothing in this table speaks of head 1-5. The control decides how the result is to be read.

# %% [markdown]
# ### To another layer
#
# The moves above stay within a layer, since only there do heads read the same states. In another layer a copied query and key would meet
# other states. But they can be fitted, as the values were. With $X_0$ and $X_2$ the states that layers 0 and 2 read, head 2-4 gets the $W$ of
#
# $$X_2 W \approx X_0 W_{0\text{-}2}$$
#
# by least squares over the tokens of 80 reviews, once for the query and once for the key. Head 0-2 is made even, and the values of both
# heads are fitted so that each reads, as nearly as it can, what it read.

# %%
giver, taker = (0, 2), (2, 4)
moved = relocation.relocate(encoder, fit_texts, giver, taker)

# %% [markdown]
# What does that do to the tables of heads? On 30 reviews that were not fitted: the weight on the previous token (lesson 02), and the
# share of words whose most attended other word lies one before (the positional score of lesson 11).

# %%
scored = held_out[:30]


def table_of_heads(changes):
    with use_heads(encoder.model, changes):
        weight = patterns.by_head(patterns.patterns(encoder, scored))
        place = heads.positions(encoder, scored, n_resamples=10)
    both = weight.merge(place, on=["layer", "head"]).set_index(["layer", "head"])
    both = both.loc[[giver, taker], ["previous", "uniform", "offset", "score"]]
    return both.rename(columns={"offset": "best offset", "score": "its share"})


before, after = table_of_heads({}), table_of_heads(moved)
assert before.loc[giver, "previous"] > 0.95 and before.loc[taker, "previous"] < 0.2
assert after.loc[giver, "previous"] < 0.1 and after.loc[taker, "previous"] > 0.9
pd.concat({"before": before, "after": after}).round(2)

# %% tags=["nbval-ignore-output"]
maps_before = encoder.attend(held_out[:1])
with use_heads(encoder.model, moved):
    maps_after = encoder.attend(held_out[:1])
pair = {"head 0-2": giver, "head 2-4": taker}
figure = pictures.before_and_after(
    *(
        {name: maps.attention[0, at[0], at[1]] for name, at in pair.items()}
        for maps in (maps_before, maps_after)
    ),
    maps_before.tokens[0],
    title="The previous-token map has gone from head 0-2 to head 2-4",
)
show(
    figure,
    alt="Four heat maps of one review. Before, head 0-2 is a clean diagonal just below the main one and head 2-4 is not; afterwards head 0-2 is "
    "even and head 2-4 shows the diagonal.",
)

# %% [markdown]
# The map has moved, from layer 0 to layer 2, and no gradient was needed. Anyone who made the table of heads now would write that 2-4 is *the* previous-token
# head of this model.
#
# And the predictions? Three other models to hold it against: head 0-2 made even and nothing else; the output of both heads removed; and
# the moved map with the values that the heads had.

# %%
old = {head: read_head(encoder.model, *head) for head in (giver, taker)}
kept_values = {
    head: old[head].attending_like(weights) for head, weights in moved.items()
}
removed = {head: weights.writing_nothing() for head, weights in old.items()}
ways = {
    "moved": moved,
    "head 0-2 even, no more": {giver: old[giver].attending_evenly()},
    "both removed": removed,
    "moved, values as they were": kept_values,
}
found = moving.compare(classifier, held_out, ways)
assert found.loc[found["way"] == "moved", "change"].median() < 0.02
print(f"your guess for the median: {my_guess}")
summary(found).round(2)

# %% tags=["nbval-ignore-output"]
figure = pictures.changes(
    found,
    title="Predictions stay when the map moves; and they stay without it, too",
)
show(
    figure,
    alt="For each way a row of points, one a review, by the change of its probability, with the median as a bar. In all rows nearly all "
    "points and the medians lie close to 0, and a few points reach further.",
)

# %% [markdown]
# The predictions stay: the median review does not notice. So head 0-2 was not *needed* as the place of this map.
# But look at the second row before you write "the work was taken over": with head 0-2 simply even, and the map nowhere, predictions stay just
# as well, and about as many reviews get another class. A held prediction is no evidence that a job was handed on; here there was little of a job to hand on. Fitting
# the values was worth something, though: in the last row more reviews move.

# %% [markdown]
# ### Learned instead of solved
#
# Least squares never saw a prediction. The more usual way to move attention trains the weights, with one loss that pulls the map to its
# place and one that holds the predictions; so Pruthi et al. (2020) trained whole models to hide what they attend to. Here the two heads are trained from where
# least squares left them. For each batch of 8 of the 80 reviews the loss is
#
# $$\text{KL}(\text{rows of 0-2 before} \parallel \text{rows of 2-4 now}) + \text{KL}(\text{prediction before} \parallel \text{prediction now}).$$

# %%
trained, steps = relocation.learn(classifier, fit_texts, giver, taker, moved, steps=30)
divergence = steps.groupby(steps["step"] // 10)["map"].mean()
assert divergence.iloc[-1] < 0.6 * divergence.iloc[0]
print("divergence of the maps, by ten steps:", divergence.round(4).tolist(), "nats")
carried = [
    table_of_heads(changes).loc[taker, "previous"] for changes in (moved, trained)
]
assert carried[1] > carried[0]
print(f"weight of 2-4 on the previous token: {carried[0]:.3f}, then {carried[1]:.3f}")
pair_of_ways = {"moved": moved, "moved, then trained": trained}
compared = moving.compare(classifier, held_out, pair_of_ways)
means = compared.groupby("way")["change"].mean()
assert abs(means["moved"] - means["moved, then trained"]) < 0.03
summary(compared).round(3)

# %% [markdown]
# Training carries the map further: the divergence falls to a fraction within 30 steps. On reviews that it was not trained on, predictions are
# held no better than before. There was hardly anything to gain, since the move had cost hardly anything; and 80 reviews may be too few to learn it from.

# %% [markdown]
# ## The claim: attention moves from head A to head B, and predictions stay
#
# You may read that Vig & Belinkov (2019) moved attention weight from head A to head B while predictions stayed. Their abstract does not say so, and we could
# not find it; the claims below are this course's own. Each was measured on five disjoint samples of 48 test reviews, with weights
# fitted on 60 training reviews of the sample's own.

# %%
verdict = verdicts(everything())
checked = verdict[verdict["lesson"] == "14"]
pd.set_option("display.max_colwidth", 140)
checked.set_index("claim")[["left", "right", "seeds", "verdict"]].round(3)

# %% tags=["nbval-ignore-output"]
show(
    claims_figure(checked),
    alt="Margins with intervals over five samples. The first two claims lie right of 0 and agree; that moving is better than even attention "
    "lies on 0 and is open; that eleven heads do better with the map than with even attention lies left of 0 and differs.",
)

# %% [markdown]
# A map can be moved to another layer, nearly whole, and predictions move little: both agree. That moving is *better* than leaving head 0-2 even is
# open, with an interval of a few thousandths around zero: moved or lost, predictions cannot tell. Eleven heads do worse with 1-5's map than
# with even attention, so that claim differs; values fitted behind a sharp map can be wrong by more than values behind an even one, which is our guess at the cause.
#
# And what others say that this lesson touches, with how sure we are of the source (P: read there; M: from memory):
#
# | claim | source | here |
# |---|---|---|
# | in texts longer than a head's dimension attention is not identifiable | Brunner et al. (2020), abstract (P) | yes, from 34 tokens on; but a peaked row still cannot move |
# | the null space has at least $T - D$ dimensions | Brunner et al. (2020) (M: the section was not read) | yes; $T - D - 1$ if rows keep their sum |
# | weight on chosen tokens can be trained away at little cost in accuracy | Pruthi et al. (2020), abstract (M) | not tested: we move a map between heads, not weight between tokens |

# %% [markdown]
# ## Try it yourself
#
# Choose a layer, head A and head B, and how to move. Start with "attention only", then fit the values on this text, then on 80 texts. For which heads does
# the prediction notice? (The figure above shows such a pair, should the menus not appear in your viewer.)

# %% tags=["nbval-ignore-output"]
text = "the film is insightful about its subject , and never dull ."
pictures.move_between_heads(classifier, text, fit_texts, start=(1, 5, 8))

# %% [markdown]
# ## Exercises

# %%
ex.free_directions


# %% tags=["exercise"]
def my_free_directions(n_tokens, head_size):
    """Directions in which a row of attention can move, its output and its sum kept.

    n_tokens: tokens of the text; head_size: dimensions of a value vector.
    The values are of full rank.
    """
    ...


# %%
free_directions = ex.free_directions.check(my_free_directions).value

# %% [markdown]
# With your function: the same 512 tokens for three models.

# %%
for name, size in (("MiniLM", 32), ("BERT-base", 64), ("a head of 128", 128)):
    print(f"{name:14} {free_directions(512, size):4} directions in 512 tokens")

# %%
ex.effective


# %% tags=["exercise"]
def my_effective(attention, values):
    """Effective attention: the least rows with the same output.

    attention: (T, T) tensor, rows; values: (T, D) tensor. Returns (T, T).
    """
    ...


# %%
effective = ex.effective.check(my_effective).value

# %% [markdown]
# Your function on head 1-5 and the longest review, averaged over rows.

# %%
maps = encoder.attend([held_out[longest]], states=True)
values = freedom.written(encoder, maps, 1, 5)[0].double()
weights = maps.attention[0, 1, 5].double()
shares = pd.DataFrame(
    {"weight": weights.mean(0), "effective": effective(weights, values).mean(0)},
    index=maps.tokens[0],
)
shares["length of value"] = values.norm(dim=1)
shares.nlargest(4, "weight").round(2)

# %% [markdown]
# Averaged over rows these tokens keep their weight. What is hidden is in how the rows differ from one another.

# %%
ex.reading

# %% tags=["exercise"]
my_reading = ...

# %%
ex.reading.check(my_reading)

# %%
ex.progress()

# %% [markdown]
# ## What to take away
#
# - A row of attention over $T$ tokens has $T - D - 1$ directions that the output does not notice, and can still be unable to move: weights are
#   not negative. Measure the range, not only the dimension.
# - Heads of a layer write into separate directions here, so attention alone cannot move between them; values have to change.
# - Exchanging all weights of two heads changes nothing but names. Refitting values for one text works for nearly any map, and says nothing.
# - A control (removal, even attention) decides whether a moved map means anything. Here it did as well as the map, or better.
# - A map can go to a head of another layer, by least squares alone, and predictions stay. They stay without the map as well. Training with
#   the predictions in the loss moves the map more exactly, and holds predictions no better.
# - "Head A does X" describes where a map is seen. It is a statement about jobs only if predictions depend on it, which takes a test of its own.

# %% [markdown]
# ## What this does not show
#
# - That attention can be moved by changing weights does not say that training would have put it there. These models were made, not found.
# - The ranges of a row hold for one head and one text, with everything else as it was.
# - Predictions were held on reviews. Another task, or another output of the encoder, may depend on what was moved.
# - One encoder, and one pair of heads for the move to another layer. A head that its model cannot do without may be harder to move.
# - Head 0-2 matters little for *this* classifier. For another task the comparison with even attention may come out otherwise.
#
# ## Further reading
#
# - Brunner, G., Liu, Y., Pascual, D., Richter, O., Ciaramita, M. & Wattenhofer, R. (2020). On Identifiability in Transformers. *ICLR*.
# - Pruthi, D., Gupta, M., Dhingra, B., Neubig, G. & Lipton, Z. C. (2020). Learning to Deceive with Attention-Based Explanations. *ACL*.
# - Bhardwaj, R., Majumder, N., Poria, S. & Hovy, E. (2021). More Identifiable yet Equally Performant Transformers for Text
#   Classification. *ACL*.
# - Vig, J. & Belinkov, Y. (2019). Analyzing the Structure of Attention in a Transformer Language Model. *BlackboxNLP*.
