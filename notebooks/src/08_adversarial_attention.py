# %% [markdown]
# # Adversarial attention
#
# How different can a model's attention be while its prediction stays the same?
#
# **Time** 40 minutes. **Builds on** the attention classifier of lesson 05: encode the words, average their states by attention,
# decode the average. What you need of it is repeated here.
#
# Afterwards you will be able to
#
# - state the adversary of Jain & Wallace (2019) as an optimisation problem and solve it exactly, by hand, for a short sentence;
# - tell a lower bound that an optimiser found from a maximum that is proved;
# - say what a high value of that maximum shows, and what a low one proves.

# %%
import time
from itertools import permutations

import pandas as pd
import torch
from course_utils import exercises
from course_utils.analysis import adversary, over
from course_utils.analysis.distances import jsd
from course_utils.data import load, make_batch, make_batches
from course_utils.models import load_checkpoint
from course_utils.show import counterfactual, move_attention, plots, show, slab

ex = exercises.load("08")

# %% [markdown]
# ## Predict first
#
# A classifier reads a sentence from a film review and finds it positive. You may now choose *any* attention weights you like, and
# the probability must stay within 0.01 of what it was. How far from the model's own weights can you get?
#
# Distance is the Jensen-Shannon divergence (JSD): 0 for the same weights, ln 2 = 0.69 for weights that share no word. Write down
# your guess for the median sentence before you go on.

# %%
my_guess = 0.35  # between 0 and 0.69

# %% [markdown]
# ## The idea
#
# The encoder turns $T$ words into states $h_1 \dots h_T$. Attention $\alpha$ averages them, a linear decoder reads the average:
#
# $$p = \sigma\Big(w \cdot \sum_t \alpha_t h_t + b\Big).$$
#
# Attention sums to 1, so the sum can be taken out of the decoder. Let $v_t = w \cdot h_t + b$: the log odds the model would give if
# it attended to word $t$ alone. Then
#
# $$p = \sigma\Big(\sum_t \alpha_t v_t\Big).$$
#
# The output sees attention through *one number*, the average of the $v_t$. Every attention with the same average gives the same
# prediction.

# %% [markdown]
# ### Four words by hand
#
# Here is a sentence of four words with made-up numbers. The model attends mostly to *dull*, and finds the sentence negative.

# %%
words = ["a", "dull", "but", "film"]
alpha = torch.tensor([0.05, 0.70, 0.05, 0.20], dtype=torch.float64)
v = torch.tensor([0.4, -3.0, 1.2, -1.0], dtype=torch.float64)

p = torch.sigmoid(alpha @ v)
print(f"average log odds {alpha @ v:.3f}, probability of the positive class {p:.3f}")

# %% [markdown]
# The probability may move by `eps`. That leaves an interval for the average log odds; an attention $q$ is *feasible* when
# $\text{low} \le \sum_t q_t v_t \le \text{high}$. In the space of attentions this is a slab between two parallel planes.

# %%
eps = 0.01
low, high = torch.logit(p - eps), torch.logit(p + eps)
print(f"the average log odds must stay between {low:.3f} and {high:.3f}")

# %% [markdown]
# The JSD is a convex function of $q$, and a convex function on a polytope is largest at a corner. The corners of the simplex of
# attentions, cut by a slab, are of two kinds only:
#
# - one word whose own $v_t$ lies in the interval;
# - two words on either side of a wall of the slab, mixed so that their average lands on it.
#
# So the furthest attention with the same prediction uses *at most two words*, and we find it by trying all of them.

# %%
rows = []
for wall in (low, high):
    for i, j in permutations(range(4), 2):
        if v[i] < wall < v[j]:
            weight = (v[j] - wall) / (v[j] - v[i])
            q = torch.zeros(4, dtype=torch.float64)
            q[i], q[j] = weight, 1 - weight
            numbers = weight, torch.sigmoid(q @ v), jsd(q, alpha)
            rows.append([words[i], words[j], *map(float, numbers)])

columns = ["first", "second", "weight on first", "probability", "JSD"]
table = pd.DataFrame(rows, columns=columns).sort_values("JSD", ascending=False)
table.round(3).head(4)

# %% [markdown]
# No word lies in the interval by itself, so the answer is the pair at the top. Look at the first column: every pair that keeps this
# prediction contains *dull*, because no other word is negative enough. Remember it; it comes back on real text.
#
# The package does the same for a batch of texts at once, and must agree.

# %%
mask = torch.ones(1, 4, dtype=torch.bool)
by_package = adversary.exact_attention(alpha[None], v[None], mask, eps)
for word, weight in zip(words, by_package.attention[0], strict=True):
    print(f"{word:5} {weight:.3f}")
print(f"JSD {by_package.jsd[0]:.3f}, by hand {table['JSD'].max():.3f}")
assert abs(by_package.jsd[0] - table["JSD"].max()) < 1e-9

# %% [markdown]
# With three words you can see it. Each point of the triangle is an attention; the hatched band holds those with the same
# prediction (`eps` is 0.1 here, so that the band has a width you can see). The star is at the corner of the band that lies furthest
# from the model's attention.

# %% tags=["nbval-ignore-output"]
figure = slab(["dull", "film", "good"], [0.6, 0.25, 0.15], [-2.5, 0.3, 2.0], eps=0.1)
show(
    figure,
    alt="Triangle of all attentions over the words dull, film and good. A band across it holds the attentions with "
    "the same prediction; the model's attention lies inside it, and the furthest point is one of the band's "
    "corners, on an edge of the triangle, where one of the three words has no weight.",
)

# %% [markdown]
# ## On real text
#
# The model is the paper's: a BiLSTM with additive attention, trained on review sentences from Rotten Tomatoes. Its card says how
# it was trained and how well it does on sentences it has never seen.

# %%
reviews = load("rotten_tomatoes")
model, vocabulary = load_checkpoint("rotten_tomatoes-bilstm-additive")
print(reviews)

# %% [markdown]
# Take a sentence that the model finds positive for a reason that looks good: nearly all attention is on *insightful*.

# %% tags=["nbval-ignore-output"]
text = "the film is insightful about kissinger's background and history ."
sentence = make_batch([text], vocabulary)
with torch.no_grad():
    output = model(sentence)
found = adversary.exact_attention(
    output.attention, output.token_logits, sentence.mask, eps
)
counterfactual(
    model,
    sentence,
    found.attention,
    classes=reviews.classes,
    name="the exact adversary",
)

# %% [markdown]
# The second row is a different story, *film*, with the same ending. Its probability was computed by the model itself with these
# weights in place of its own. A reader who is shown only one of the rows has no way to tell which one the model used.

# %% [markdown]
# ### All test sentences
#
# One sentence proves little. The exact adversary of every test sentence takes one pass through the encoder and a search over pairs.

# %%
batches = make_batches(reviews.test, vocabulary)
everyone = over(adversary.exact, model, batches, eps=0.01)
print(f"{len(everyone)} sentences; your guess was {my_guess}")
print(f"median max-JSD {everyone['max_jsd'].median():.2f} of at most 0.69")

# %% [markdown]
# The published answer is an optimiser: from five random starts, 500 steps of Adam raise the JSD under a penalty for changing the
# prediction. We run both on the same 200 sentences, drawn at random, and time both from text to table.

# %% tags=["nbval-ignore-output"]
generator = torch.Generator().manual_seed(0)
chosen = torch.randperm(len(reviews.test), generator=generator)[:200]
sample = make_batches([reviews.test[i] for i in chosen], vocabulary)


def timed(experiment):
    start = time.perf_counter()
    result = experiment()
    return result, 1000 * (time.perf_counter() - start) / 200


with torch.no_grad():
    _, encoder_pass = timed(lambda: [model(batch) for batch in sample])
exact, exact_time = timed(lambda: over(adversary.exact, model, sample, eps=0.01))
published, published_time = timed(
    lambda: over(adversary.published, model, sample, eps=0.01)
)

both = pd.concat(
    [exact.assign(method="exact"), published.assign(method="500-step optimiser")],
    ignore_index=True,
)
summary = both.groupby("method", sort=False)["max_jsd"].describe()
summary = summary[["25%", "50%", "75%", "max"]].round(3)
summary["ms a sentence"] = [round(exact_time, 2), round(published_time, 2)]
print(f"of this, the pass through the encoder: {encoder_pass:.2f} ms a sentence")
summary

# %% tags=["nbval-ignore-output"]
figure = plots.max_jsd(both, reviews.classes)
show(
    figure,
    alt="Two histograms of the max-JSD of 200 sentences. The exact adversary's values crowd at the ceiling of 0.69; the "
    "optimiser's values on the same sentences lie far lower, around the middle of the range.",
)

# %% [markdown]
# The optimiser stopped well short of the maximum. It is not wrong: each attention it found does keep the prediction. But the
# distance it reports is a *lower bound*, and for the median sentence more than a third of the distance was never found.

# %%
paired = both.pivot(index="input", columns="method", values="max_jsd")
never_better = (paired["500-step optimiser"] <= paired["exact"] + 1e-6).all()
print(f"the optimiser never beats the exact answer: {never_better}")
assert never_better
assert 0.64 < paired["exact"].median() < 0.69
assert 0.30 < paired["500-step optimiser"].median() < 0.45

# %% [markdown]
# ## The claim: attention that looks different explains the same prediction
#
# Jain & Wallace (2019, section 4.2.2) report that for most inputs such an attention exists, and conclude that attention weights do
# not provide *the* explanation of a prediction. Their figures, read off the plots in their repository, are for a tolerance of 0.05.


# %% tags=["nbval-ignore-output"]
def by_class(frame):
    return frame.groupby("predicted_class")["max_jsd"].median().tolist()


at_paper_eps = over(adversary.exact, model, batches, eps=0.05)
claim = pd.DataFrame(
    {
        "paper, SST, optimiser, eps 0.05": [0.49, 0.50],
        "ours, optimiser, eps 0.01": by_class(published),
        "ours, exact, eps 0.01": by_class(everyone),
        "ours, exact, eps 0.05": by_class(at_paper_eps),
    },
    index=pd.Index(reviews.classes, name="median max-JSD, predicted"),
)
claim.T.round(2)

# %% [markdown]
# Our run of the optimiser stays somewhat below the paper's figures. SST is another selection of sentences from the same reviews, the
# word vectors and the number of epochs differ, and the paper accepts a larger change; equality is not to be expected. The exact answer lies
# far above both at either tolerance: the paper *understated* how far attention can move.
#
# ### What else could explain it?
#
# A BiLSTM mixes: the state at *film* has read the whole sentence, so it is no surprise that *film* can stand in for *insightful*.
# Is this why attention can move? The "average" encoder is the control. There a state knows its own word and nothing else.

# %%
control, words_known = load_checkpoint("rotten_tomatoes-average-additive")
unmixed = over(
    adversary.exact, control, make_batches(reviews.test, words_known), eps=0.01
)
print(f"median max-JSD with a BiLSTM       {everyone['max_jsd'].median():.2f}")
print(f"median max-JSD with no mixing      {unmixed['max_jsd'].median():.2f}")

# %% [markdown]
# Without any mixing the maximum is nearly as high. So mixing is not the main reason. Geometry is: among twenty words there is almost
# always a pair, one on either side, that meets the average, and two words out of twenty are far from any attention that is spread
# over the others. **A high max-JSD says little about the model.** It is close to what the question itself guarantees.

# %% [markdown]
# ### When the exact answer proves that attention matters
#
# A *low* maximum is another matter. No optimiser can establish it, since it might have missed something. The exact answer can.

# %%
lowest = everyone.nsmallest(6, "max_jsd")
for row in lowest.itertuples():
    print(f"{row.max_jsd:.2f}  {reviews.test[row.input].text}")

# %% tags=["nbval-ignore-output"]
hard = make_batch([reviews.test[lowest["input"].iloc[0]]], vocabulary)
with torch.no_grad():
    output = model(hard)
found = adversary.exact_attention(output.attention, output.token_logits, hard.mask, eps)
counterfactual(
    model,
    hard,
    found.attention,
    classes=reviews.classes,
    name="the furthest attention that exists",
)

# %% [markdown]
# This is the *most different* attention that keeps the prediction, and it is hardly different: every pair again contains the word
# that decides. With these states, the model cannot reach this probability while looking anywhere else.

# %%
shares = pd.cut(everyone["max_jsd"], [0, 0.2, 0.4, 0.6, 0.7]).value_counts(
    normalize=True, sort=False
)
print(shares.round(2).rename_axis("max-JSD").to_string())
assert 0.01 < (everyone["max_jsd"] < 0.2).mean() < 0.06

# %% tags=["nbval-ignore-output"]
figure = plots.max_jsd_by_attention(everyone, reviews.classes)
show(
    figure,
    alt="Distribution of the exact max-JSD by the largest attention weight. With even attention all values are near the "
    "ceiling of 0.69; the low values, below 0.2, occur only where one word holds more than three quarters of the attention.",
)

# %% [markdown]
# Such sentences are rare, and they are those where one word holds nearly all the attention *and* no other word would give a
# prediction as strong. Peaked attention alone is not enough: *insightful* held as much, and could be replaced.

# %% [markdown]
# ## Try it yourself
#
# Move the weights. Can you get out of the band with one word? Can you reach the adversary's distance by hand before you press
# its button? (The figure above shows where it leads, in case the sliders do not appear in your viewer.)

# %% tags=["nbval-ignore-output"]
move_attention(model, sentence, classes=reviews.classes)

# %% [markdown]
# ## Exercises
#
# A check says whether you are right, and if not, why. `ex.weight_on_first.hint()` helps, `ex.weight_on_first.solution()` shows an answer.

# %%
ex.weight_on_first


# %% tags=["exercise"]
def my_weight_on_first(first, second, wall):
    """Weight on the first of two tokens for a mixture with the log odds `wall`.

    first, second: log odds of the two tokens alone, on different sides of `wall`.
    """
    ...


# %%
ex.weight_on_first.check(my_weight_on_first)

# %%
ex.proof

# %% tags=["exercise"]
my_proof = ...

# %%
ex.proof.check(my_proof)

# %% [markdown]
# The last exercise sharpens the proof. Instead of a distance, it asks about one word: how much of its weight can it not lose?

# %%
ex.least_weight


# %% tags=["exercise"]
def my_least_weight(token_logits, position, low, high):
    """Smallest weight of one token among all attentions with the same prediction.

    token_logits: (T,) tensor, T >= 2; position: the token's place.
    The prediction stays where low <= attention @ token_logits <= high.
    """
    ...


# %%
least_weight = ex.least_weight.check(my_least_weight).value

# %% [markdown]
# Applied to each test sentence and its most attended word, your function says for how many sentences that word is indispensable.

# %%
needed = []
with torch.no_grad():
    for batch in batches:
        output = model(batch)
        logits = output.token_logits.double()
        lows, highs = adversary.logit_bounds(
            (output.attention.double() * logits).sum(1), 0.01
        )
        for row, length in enumerate(batch.lengths.tolist()):
            top = output.attention[row].argmax().item()
            needed.append(
                float(least_weight(logits[row, :length], top, lows[row], highs[row]))
            )
needed = pd.Series(needed)
print(f"the top word has to keep some weight: {(needed > 0).mean():.0%} of sentences")
print(f"more than half of all the attention:  {(needed > 0.5).mean():.0%} of sentences")

# %%
ex.progress()

# %% [markdown]
# ## What to take away
#
# - With a linear decoder the prediction depends on attention through one average. All attentions with the same average are
#   equivalent to the model, and the furthest of them uses at most two words.
# - For most sentences the furthest is almost as far as any two distributions can be. The optimiser of the paper finds a part of it.
# - That is mostly geometry: a model whose states know one word each shows nearly the same.
# - A low maximum is a proof. For those sentences, "the model attended to this word" *is* part of why it decided.

# %% [markdown]
# ## What this does not show
#
# - The adversary keeps the states and swaps the weights. No trained model need ever produce these weights; Wiegreffe & Pinter
#   (2019) object to exactly this. Lesson 09 trains adversaries end to end.
# - That other weights would give the same prediction does not show that *these* weights did not produce it. They did. The question
#   is whether they are the only account.
# - One model, one seed, sentences of about twenty words. Lesson 09 varies the seed.
# - Two-word attention is an extreme point. How a typical attention with the same prediction looks is not asked here.

# %% [markdown]
# ## Further reading
#
# - Jain, S. & Wallace, B. C. (2019). Attention is not Explanation. *NAACL*. Section 4.2.2 and figures 1, 5 and 6.
# - Wiegreffe, S. & Pinter, Y. (2019). Attention is not not Explanation. *EMNLP*.
# - Rockafellar, R. T. (1970). *Convex Analysis*, section 32, on the maximum of a convex function. Princeton University Press.
# - Lin, J. (1991). Divergence measures based on the Shannon entropy. *IEEE Transactions on Information Theory* 37(1).
