# %% [markdown]
# # Permuting attention
#
# If the weights are given to the wrong words, does the prediction change?
#
# **Time** 35 minutes. **Builds on** the attention classifier of lesson 05; what you need of it is repeated here.
#
# Afterwards you will be able to
#
# - run the permutation experiment of Jain & Wallace (2019), sampled and in closed form, and say when the two agree;
# - split its result into two causes: how uneven the weights are, and how far the words lie apart;
# - tell for which kind of task a model depends on where it attends.

# %%
from itertools import permutations

import pandas as pd
import torch
from course_utils import exercises
from course_utils.analysis import over, permutation
from course_utils.data import load, make_batches
from course_utils.models import load_checkpoint
from course_utils.reproduce import results
from course_utils.reproduce.claims import table as over_seeds
from course_utils.reproduce.measures import sample
from course_utils.show import plots, show

ex = exercises.load("07")

# %% [markdown]
# ## Predict first
#
# A classifier reads a film review and gives one word half of its attention. Now the weights are shuffled: another word gets that
# half. The words and their states stay as they are. By how much does the probability change, in the median review?

# %%
my_guess = 0.4  # a change of the probability, between 0 and 1

# %% [markdown]
# ## The idea
#
# With a linear decoder the log odds are an average over the words: $\sum_t \alpha_t v_t$, where $v_t$ are the log odds if the model
# attended to word $t$ alone. Shuffling deals the same weights $\alpha$ to other words. No state is computed anew.

# %% [markdown]
# ### Four words by hand
#
# Four words can be shuffled in 24 ways. The model gives most weight to *dull*.

# %%
words = ["a", "dull", "but", "film"]
alpha = torch.tensor([0.05, 0.70, 0.05, 0.20], dtype=torch.float64)
v = torch.tensor([0.4, -3.0, 1.2, -1.0], dtype=torch.float64)

shuffled = torch.stack([alpha[list(order)] @ v for order in permutations(range(4))])
print(f"as it is: log odds {alpha @ v:.3f}, probability {torch.sigmoid(alpha @ v):.3f}")
print(
    f"24 shuffles: mean {shuffled.mean():.3f}, variance {shuffled.var(unbiased=False):.3f}"
)

# %% [markdown]
# Mean and variance over all shuffles need no shuffling (Hoeffding 1951):
#
# $$\mathrm{E} = \bar v, \qquad \mathrm{Var} = \sum_t \Big(\alpha_t - \tfrac1T\Big)^2 \cdot \frac{1}{T-1}\sum_t (v_t - \bar v)^2.$$
#
# The variance is a product of two factors. The first is large where the **weights are uneven**, the second where the **words lie
# apart**, that is, where attending to one word instead of another would lead to another prediction. Both must be large.

# %%
uneven = ((alpha - 1 / 4) ** 2).sum()
apart = ((v - v.mean()) ** 2).sum() / 3
print(
    f"mean {v.mean():.3f}, variance {uneven * apart:.3f} = {uneven:.3f} x {apart:.3f}"
)
assert abs(uneven * apart - shuffled.var(unbiased=False)) < 1e-12

# %% [markdown]
# ## On real text
#
# The model is a BiLSTM with additive attention on review sentences. Three hundred test sentences, each with 100 shuffles, are one
# pass through the encoder and some sums.

# %%
reviews = load("rotten_tomatoes")
model, vocabulary = load_checkpoint("rotten_tomatoes-bilstm-additive")
batches = make_batches(sample(reviews.test, 300), vocabulary)
frame = over(permutation.permute, model, batches, n_permutations=100)
print(f"median change {frame['median_change'].median():.2f}; your guess was {my_guess}")
assert 0.10 < frame["median_change"].median() < 0.20

# %% [markdown]
# This is figure 3 of Jain & Wallace (2019): each point is a sentence, sorted by its largest weight.

# %% tags=["nbval-ignore-output"]
figure = plots.permutation(frame, reviews.classes)
show(
    figure,
    alt="Median change of the probability under shuffled attention, for 300 sentences in four bins of the largest "
    "weight. Most points lie below 0.25 in every bin; where the largest weight is above one half the changes "
    "reach further, up to about 0.75.",
)

# %% [markdown]
# ### Sampled and exact
#
# A hundred shuffles estimate what the formula knows. The two must agree within sampling error: the sampled mean lies within three
# standard errors of the exact one for nearly all sentences.

# %%
checks = []
for batch in batches:
    logits = permutation.permuted_logits(model, batch, n_permutations=100)
    odds = logits[..., 1] - logits[..., 0]
    exact = permutation.permutation_moments(model, batch)
    error = (odds.mean(1).numpy() - exact["mean"]) / (exact["variance"] / 100) ** 0.5
    ratio = odds.var(1).numpy() / exact["variance"]
    checks.append(pd.DataFrame({"error": error, "ratio": ratio}))
checks = pd.concat(checks)
within = (checks["error"].abs() < 3).mean()
print(f"within three standard errors: {within:.1%}")
print(f"sampled variance / exact variance, median: {checks['ratio'].median():.2f}")
assert within > 0.98 and 0.9 < checks["ratio"].median() < 1.1

# %% [markdown]
# ### Is it the mixing?
#
# A BiLSTM's states have read their neighbours, so perhaps all words say the same and shuffling cannot hurt. The "average" encoder is
# the control: a state knows its own word only. Long reviews are a second comparison.


# %%
def measured(name, n_texts=300):
    """The experiment and its two causes, for a checkpoint."""
    dataset = load(name.rsplit("-", 2)[0])
    model, vocabulary = load_checkpoint(name)
    batches = make_batches(sample(dataset.test, n_texts), vocabulary)
    found = over(permutation.permute, model, batches)
    found["same_decision_if_even"] = False
    for batch in batches:
        even = model(batch, attention=batch.mask / batch.lengths[:, None])
        found.loc[batch.index, "same_decision_if_even"] = (
            even.predicted == model(batch).predicted
        ).numpy()
    return found


def summary(found):
    peaked = found[found["max_attention"] >= 0.5]
    return {
        "largest weight": found["max_attention"].median(),
        "median change": found["median_change"].median(),
        "where a word has half": peaked["median_change"].median(),
        "same decision with even weights": found["same_decision_if_even"].mean(),
    }


sentiment = {
    "sentences, BiLSTM": measured("rotten_tomatoes-bilstm-additive"),
    "sentences, no mixing": measured("rotten_tomatoes-average-additive"),
    "long reviews, BiLSTM": measured("imdb-bilstm-additive", 200),
}
pd.DataFrame({name: summary(found) for name, found in sentiment.items()}).T.round(2)

# %% [markdown]
# Without mixing the change is about as large, so mixing is not what makes shuffling harmless. And with *even* weights, no attention
# at all, about four decisions in five stay. Most words of a review lean the same way; which of them is read matters little.

# %% [markdown]
# ### Two texts
#
# Now a question is asked about a story. Only one sentence of the story holds the answer, and which one depends on the question.

# %%
stories = load("stories-1")
example = stories.test[0]
print(example.text)
print(example.query, "->", stories.classes[example.label])

# %%
two_texts = {
    "question about a story": measured("stories-1-bilstm-additive"),
    "premise and hypothesis": measured("entailment-bilstm-additive"),
}
everything = sentiment | two_texts
table = pd.DataFrame({name: summary(found) for name, found in everything.items()}).T
assert table.loc["question about a story", "median change"] > 0.8
assert table.loc["premise and hypothesis", "median change"] > 0.5
table.round(2)

# %% tags=["nbval-ignore-output"]
tasks = pd.concat([found.assign(task=name) for name, found in everything.items()])
figure = plots.permutation_by_task(tasks)
show(
    figure,
    alt="Distribution of the median change of the prediction under shuffled attention for five tasks. For the three "
    "sentiment tasks nearly all values lie below 0.4; for questions about stories most are above 0.8, and for "
    "premise and hypothesis they spread over the whole range with a median near 0.8.",
)

# %% [markdown]
# With two texts the change is several times as large. Shuffling deals the weight to a sentence about somebody else, and the answer
# goes with it. Here attention does a job that nothing else in the model does: it selects.
#
# Premise and hypothesis are split: some predictions hardly move. The class tells which.

# %%
pairs = load("entailment")
by_class = two_texts["premise and hypothesis"].groupby("predicted_class")
by_class["median_change"].median().rename(index=dict(enumerate(pairs.classes))).round(2)

# %% [markdown]
# Neutral predictions hardly move. A model of three classes may use one of them as the answer when nothing particular is found, and
# what is found nowhere is not found elsewhere either.

# %% [markdown]
# ## The claim: attention weights can be permuted without changing the prediction
#
# Jain & Wallace (2019, section 4.2.1) report that shuffling often has little effect even where one word holds most of the weight, and
# that there are data sets where it matters. Vashishth et al. (2019; from memory) hold that this depends on the task: harmless with
# one text, harmful with two. The figures of our runs, with 95 % intervals over seeds:

# %%
measures = over_seeds(results())
rows = measures[
    (measures["measure"] == "permutation_change")
    & measures["group"].isin(["all", "largest weight at least .5"])
    & (measures["seeds"] >= 3)
]
rows.drop(columns="measure").set_index(["recipe", "group"]).round(2)

# %% [markdown]
# Both hold here. For sentences the change is small, though not zero, and it grows with the largest weight, as in the paper's figure.
# For two texts it is large with every seed. The paper's own figure 3 is a plot without numbers, so only the direction can be compared.

# %% [markdown]
# ## Try it yourself
#
# Change the weights and the log odds of four words. When is the spread of the shuffles large? (The hand example above is the
# starting point, in case the sliders do not appear in your viewer.)

# %% tags=["nbval-ignore-output"]
from ipywidgets import FloatSlider, interactive


def spread(weight_on_one, distance):
    """One word has this weight, the others share the rest; its log odds lie apart."""
    alpha = torch.full((4,), (1 - weight_on_one) / 3)
    alpha[0] = weight_on_one
    v = torch.tensor([distance, 0.5, 0.0, -0.5])
    every = [torch.sigmoid(alpha[list(o)] @ v) for o in permutations(range(4))]
    low, high = float(min(every)), float(max(every))
    print(f"original {torch.sigmoid(alpha @ v):.2f}, shuffled {low:.2f} to {high:.2f}")


interactive(
    spread,
    weight_on_one=FloatSlider(0.7, min=0.25, max=1.0, step=0.05, description="weight"),
    distance=FloatSlider(3.0, min=-5.0, max=5.0, step=0.5, description="log odds"),
)

# %% [markdown]
# ## Exercises
#
# A check says whether you are right, and if not, why. `ex.flip_share.hint()` helps, `ex.flip_share.solution()` shows an answer.

# %%
ex.shuffled_variance


# %% tags=["exercise"]
def my_shuffled_variance(attention, token_logits):
    """Variance of the log odds over all permutations of the attention weights.

    attention, token_logits: (T,) tensors, T >= 2; attention sums to 1.
    """
    ...


# %%
ex.shuffled_variance.check(my_shuffled_variance)

# %%
ex.flip_share


# %% tags=["exercise"]
def my_flip_share(attention, token_logits):
    """Share of all T! permutations of the weights that change the sign of the log odds.

    attention, token_logits: (T,) tensors, 2 <= T <= 6; no permutation gives exactly 0.
    """
    ...


# %%
flip_share = ex.flip_share.check(my_flip_share).value
print(f"of the 24 shuffles of 'a dull but film', {flip_share(alpha, v):.0%} flip it")

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
# - Shuffling moves the log odds by (unevenness of the weights) x (distance between the words). A small change can come from either.
# - In sentiment most words lean the same way, so the weights can be dealt out anew, or evened out, and most decisions stay. That
#   holds without any mixing of the words too.
# - Where one text asks about another, shuffling destroys the prediction. "Attention does not matter" is a statement about a task.

# %% [markdown]
# ## What this does not show
#
# - Shuffled weights were never seen in training, and a random shuffle is not the worst one: lesson 08 looks for the worst.
# - A change under shuffling shows that the weights are used. It does not show that they tell a reader *why*.
# - Our stories and pairs are made by a generator, small and regular. In natural text the selected sentence is rarely as clear.

# %% [markdown]
# ## Further reading
#
# - Jain, S. & Wallace, B. C. (2019). Attention is not Explanation. *NAACL*. Section 4.2.1 and figure 3.
# - Vashishth, S., Upadhyay, S., Tomar, G. S. & Faruqui, M. (2019). Attention interpretability across NLP tasks. *arXiv:1909.11218*.
# - Hoeffding, W. (1951). A combinatorial central limit theorem. *Annals of Mathematical Statistics* 22(4).
