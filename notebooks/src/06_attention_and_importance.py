# %% [markdown]
# # Attention and importance
#
# Do attention weights rank the words as other measures of importance do?
#
# **Time** 45 minutes. **Builds on** the attention classifier of lesson 05; what you need of it is repeated here.
#
# Afterwards you will be able to
#
# - compute gradient and leave-one-out importance, and compare two rankings by Kendall's tau, input by input;
# - judge a correlation against a yardstick and a control instead of against 1;
# - test measures of importance where the right answer is known.

# %%
import numpy as np
import pandas as pd
from course_utils import exercises
from course_utils.analysis import correlation, gold, over
from course_utils.analysis.integrated import integrated_gradients
from course_utils.analysis.rankings import rankings
from course_utils.analysis.resampling import draws
from course_utils.data import load, make_batch, make_batches
from course_utils.models import load_checkpoint
from course_utils.reproduce import results
from course_utils.reproduce.claims import table as over_seeds
from course_utils.reproduce.measures import sample
from course_utils.show import heatmap, show
from course_utils.show.correlation import agreement, taus

ex = exercises.load("06")

# %% [markdown]
# ## Predict first
#
# Three measures rank the words of a review: the attention weight, the size of the gradient, and the change of the prediction when
# the word is deleted. Kendall's tau is 1 for the same order, 0 for orders that have nothing in common. What is the mean tau between
# attention and the gradient?

# %%
my_guess = 0.7  # between -1 and 1

# %% [markdown]
# ## The idea
#
# Jain & Wallace (2019) compare attention with two measures that do not look at it.
#
# - **Gradient**: $|x_t \cdot \partial p / \partial x_t|$, how fast the probability moves when word vector $x_t$ is scaled. The
#   attention weights are held as they are.
# - **Leave-one-out**: the change of the prediction when word $t$ is deleted and the text is encoded again.
#
# Neither is the truth. They are two other accounts, and if attention agreed with neither, that would need an explanation.

# %% [markdown]
# ### Four words by hand
#
# Tau counts pairs. Of four words there are six pairs; a pair agrees if both measures put the same word first.

# %%
words = ["a", "dull", "but", "film"]
attention = [0.05, 0.70, 0.15, 0.10]
gradient = [0.01, 0.20, 0.02, 0.09]
agree, pairs = 0, 0
for i in range(4):
    for j in range(i):
        same = (attention[i] > attention[j]) == (gradient[i] > gradient[j])
        print(f"{words[j]:5} {words[i]:5} {'agree' if same else 'disagree'}")
        agree, pairs = agree + same, pairs + 1
tau = (agree - (pairs - agree)) / pairs
print(f"tau = ({agree} - {pairs - agree}) / {pairs} = {tau:.2f}")

# %%
frame = pd.DataFrame({"input": 0, "predicted_class": 0, "attention": attention})
by_package = correlation.kendall(frame.assign(gradient=gradient))
assert abs(by_package["tau"].iloc[0] - tau) < 1e-12
by_package.round(2)

# %% [markdown]
# The p-value asks whether such a tau could come from orders drawn at random. With four words a single disagreement is not
# significant; with forty, a tau of 0.3 is. So the "significant fraction" that the paper reports grows with the length of the texts.

# %% [markdown]
# ## On real text
#
# One sentence first, and four measures of the same prediction.

# %%
reviews = load("rotten_tomatoes")
model, vocabulary = load_checkpoint("rotten_tomatoes-bilstm-additive")
text = "the film is insightful about kissinger's background and history ."
scores = rankings(model, make_batch([text], vocabulary))
methods = ["attention", "gradient", "leave_one_out", "integrated_gradients"]
scores.set_index("token")[methods].round(3)

# %% [markdown]
# Three measures put *insightful* first, the fourth puts it second, and about the other words they disagree. That is the typical
# case. Tau counts *all* pairs, also the many between words that hardly matter; keep it in mind for the numbers below.

# %% [markdown]
# ### Two hundred sentences
#
# `rankings` computes every measure for a batch; `correlation.kendall` gives one tau a sentence.

# %%
COMPARISONS = {
    "attention and gradient": ("attention", "gradient"),
    "attention and leave-one-out": ("attention", "leave_one_out"),
    "gradient and leave-one-out": ("gradient", "leave_one_out"),
}


def measured(name, n_texts=200):
    """The rankings of a checkpoint's test texts, and the texts."""
    dataset = load(name.rsplit("-", 2)[0])
    model, vocabulary = load_checkpoint(name)
    texts = sample(dataset.test, n_texts)
    batches = make_batches(texts, vocabulary, token_budget=4096)
    return over(rankings, model, batches), texts


def compared(scores):
    parts = [
        correlation.kendall(scores, *pair).assign(comparison=name)
        for name, pair in COMPARISONS.items()
    ]
    return pd.concat(parts, ignore_index=True)


sentences, _ = measured("rotten_tomatoes-bilstm-additive")
bilstm = compared(sentences)
means = bilstm.groupby("comparison", sort=False)["tau"].mean()
print(means.round(2).to_string())
print(f"your guess for the first: {my_guess}")
assert 0.25 < means.iloc[0] < 0.45

# %% tags=["nbval-ignore-output"]
show(
    taus(bilstm, reviews.classes),
    alt="Three histograms of Kendall's tau over 200 sentences. Attention against gradient and attention against "
    "leave-one-out are centred between 0.3 and 0.4 and spread from below 0 to about 0.8; gradient against "
    "leave-one-out is centred a little higher.",
)

# %% [markdown]
# This is figure 2 of the paper. Read the third panel first: it is the **yardstick**. Two measures that are both meant to show what
# the output depends on agree with each other at little more than 0.4. Attention at 0.36 looks less damning beside that than beside 1.
#
# How sure are these means, given 200 sentences? Draw 200 of them with replacement, many times; the middle 95 % of the means that
# result is the bootstrap interval. The last row is a difference, taken sentence by sentence.

# %%
per_text = bilstm.pivot(index="input", columns="comparison", values="tau")[
    list(COMPARISONS)
]
per_text["yardstick - attention and gradient"] = (
    per_text["gradient and leave-one-out"] - per_text["attention and gradient"]
)
assert per_text.notna().all(axis=None)
resampled = draws(len(per_text), 2000, seed=0) @ per_text.to_numpy() / len(per_text)
low, high = np.quantile(resampled, [0.025, 0.975], axis=0)
intervals = pd.DataFrame({"mean": per_text.mean(), "low": low, "high": high})
assert intervals.loc["yardstick - attention and gradient", "low"] > 0
intervals.round(2)

# %% [markdown]
# The gap to the yardstick is small, and it is more than chance among sentences. Whether another *training run* would show it is a
# different question; the claim below has intervals over seeds.
#
# ### What tau depends on
#
# Sort the sentences into thirds, once by their length and once by their largest attention weight.

# %%
first = bilstm[bilstm["comparison"] == "attention and gradient"].set_index("input")
first["largest weight"] = sentences.groupby("input")["attention"].max()
thirds = {
    name: first.groupby(
        pd.qcut(first[column], 3, ["low", "middle", "high"]), observed=True
    )
    for name, column in (("length", "n_tokens"), ("largest weight", "largest weight"))
}
rho = first["n_tokens"].corr(first["largest weight"], method="spearman")
print(f"rank correlation of length and largest weight: {rho:.2f}")
pd.DataFrame(
    {f"tau by {name}": part["tau"].mean() for name, part in thirds.items()}
).round(2)

# %% [markdown]
# Short sentences and peaked attention go with a higher tau, and short sentences tend to be peaked, so the two columns may show one
# cause. A difference of 0.1 between two data sets may be no more than a difference in length.

# %% [markdown]
# ### By class, as in table 2

# %%
tables = {
    name: correlation.summary(rows) for name, rows in bilstm.groupby("comparison")
}
table = pd.concat(tables, names=["comparison"]).reset_index("comparison")
table["predicted_class"] = [
    reviews.classes[label] for label in table["predicted_class"]
]
table.set_index(["comparison", "predicted_class"]).round(2)

# %% [markdown]
# `n_undefined` counts the sentences without a tau: one word, or a measure that is the same for all words, such as uniform attention
# or gradients that have all rounded to zero. They are left out of the mean and counted. Here there is none.

# %% [markdown]
# ### The control: an encoder that does not mix
#
# In a BiLSTM the weight of a word multiplies a *state*, which has read the whole sentence. The "average" encoder is the control: a
# state there is its own word's and nothing else.

# %%
unmixed = compared(measured("rotten_tomatoes-average-additive")[0])
both = pd.DataFrame(
    {
        "BiLSTM": means,
        "no mixing": unmixed.groupby("comparison", sort=False)["tau"].mean(),
    }
)
assert both.loc["attention and gradient", "no mixing"] > 0.5
both.round(2)

# %% [markdown]
# Without mixing attention agrees far better with the other measures. So the disagreement is in good part about *what is being
# weighed*: attention weighs states, the other two measure words.

# %% [markdown]
# ### Two more measures, and a check that comes with one of them
#
# **Integrated gradients** (Sundararajan et al. 2017) add up the gradient on the way from zero vectors to the text. Their sum must be
# the difference of the two probabilities. By how much it misses is the convergence delta: an error bar that the method brings along.
# **Attention x gradient** multiplies each weight by the slope along it (Serrano & Smith 2019).

# %%
batch = make_batch(sample(reviews.test, 20), vocabulary)
deltas = {
    steps: integrated_gradients(model, batch, n_steps=steps)["convergence_delta"]
    .abs()
    .max()
    for steps in (5, 20, 50)
}
print({steps: f"{delta:.4f}" for steps, delta in deltas.items()})
assert deltas[50] < 0.05

# %%
more = {
    "integrated gradients": "integrated_gradients",
    "attention x gradient": "attention_gradient",
}
sizes = sentences.assign(
    **{column: sentences[column].abs() for column in more.values()}
)
rows = {
    name: {
        other: correlation.kendall(sizes, column, other)["tau"].mean()
        for other in ("attention", "gradient", "leave_one_out")
    }
    for name, column in more.items()
}
pd.DataFrame(rows).T.round(2)

# %% [markdown]
# ### Where the right answer is known
#
# Disagreement does not say who is right. Stories do: people move about, and the question is where one of them is now. **Gold** are all
# the words of the sentence with that person's *last* move. Earlier moves of the same person look just like it and are not gold.

# %%
story_scores, stories = measured("stories-1-bilstm-additive")
story = story_scores[story_scores["input"] == 0]
print(stories[0].query)
shown = story.assign(gold=stories[0].gold).set_index("token")
shown.loc[shown["gold"], ["attention", "gradient", "leave_one_out"]].round(3)

# %% tags=["nbval-ignore-output"]
shown = ["attention", "gradient", "leave_one_out"]
heatmap(
    stories[0].tokens,
    [story[name] / story[name].max() for name in shown],
    captions=shown,
    title=f"{stories[0].query} Attention marks the place, deletion the person too.",
)

# %% [markdown]
# Attention points at the *place*, which is the answer. Deleting a word shows that the *person* is as necessary: without the name
# nobody knows whose move it was. Both are right, about different questions: where the answer is read off, and what it depends on.

# %%
found = gold.precision(
    story_scores,
    stories,
    [
        "attention",
        "gradient",
        "attention_gradient",
        "leave_one_out",
        "integrated_gradients",
        "random",
    ],
)
precision = found.groupby("method", sort=False)[["first", "r_precision"]].mean()
assert precision.loc["attention", "first"] > 0.95
assert (
    precision.loc["leave_one_out", "r_precision"]
    > precision.loc["attention", "r_precision"]
)
precision.round(2)

# %% [markdown]
# `first`: the top word lies in the deciding sentence. `r_precision`: of the six or so most important words, the share that does. Chance
# is the row `random`. Attention is nearly perfect at naming *one* word and, of the five measures, the lowest at finding the *sentence*.
# What does it rank among the first six that is not gold?

# %%
story_scores["gold"] = np.concatenate([story.gold for story in stories])
top = story_scores[
    story_scores.groupby("input")["attention"].rank(ascending=False) <= 6
]
misses = top.loc[~top["gold"], "token"]
places = misses.isin(load("stories-1").classes).mean()
print(f"of the words that attention takes in vain, places: {places:.0%}")

asked = [
    row.token in stories[row.input].query.split() for row in story_scores.itertuples()
]
names = story_scores[story_scores["gold"] & np.array(asked)]
print("the gold name, median over stories:")
print(names[["attention", "leave_one_out"]].median().round(2).to_string())
assert places > 0.5
assert names["leave_one_out"].median() > 0.7

# %% [markdown]
# Mostly the other places: attention ranks places before the words around the one that counts. And the name is no exception of one
# story: it gets almost no attention, while without it the answer is lost in most stories.

# %%
print(
    "largest convergence delta on the stories:",
    round(story_scores["convergence_delta"].abs().max(), 1),
)

# %% [markdown]
# One measure has to be taken with care here. The convergence delta of integrated gradients is as large as a probability can be: this
# model switches so sharply that 50 steps miss the switch. Its row above is not to be trusted, and only its own check tells.

# %% [markdown]
# ## The claim: attention is not correlated with other measures of importance
#
# Jain & Wallace (2019, section 4.1) report weak and variable correlations for BiLSTMs. Their figures exist in two versions, as
# published in April 2019 and as their code computes them later (both read in the primary source, P). SST holds sentences from the
# same kind of review as ours.

# %%
measures = over_seeds(results()).set_index(["recipe", "measure", "group"])


def ours(recipe, measure, group="all"):
    row = measures.loc[(f"rotten_tomatoes-{recipe}-additive", measure, group)]
    return f"{row['mean']:.2f} [{row['low']:.2f}, {row['high']:.2f}]"


pd.DataFrame(
    {
        "paper, SST, April (neg, pos)": [".40 .38", ".34 .33", "", ""],
        "paper, SST, later (neg, pos)": [".34 .36", ".27 .32", ".66", ".61 .60"],
        "ours, mean and interval over seeds": [
            ours("bilstm", "tau_gradient"),
            ours("bilstm", "tau_leave_one_out"),
            ours("bilstm", "tau_gradient_leave_one_out"),
            ours("average", "tau_gradient"),
        ],
    },
    index=[
        "attention and gradient, BiLSTM",
        "attention and leave-one-out, BiLSTM",
        "gradient and leave-one-out, BiLSTM",
        "attention and gradient, no mixing",
    ],
)

# %% tags=["nbval-ignore-output"]
rows = over_seeds(results())
names = {
    "tau_gradient": "attention and gradient",
    "tau_leave_one_out": "attention and leave-one-out",
    "tau_gradient_leave_one_out": "gradient and leave-one-out",
}
chosen = rows[rows["measure"].isin(names) & (rows["group"] == "all")]
chosen = chosen.assign(model=chosen["recipe"], comparison=chosen["measure"].map(names))
figure = agreement(
    chosen, title="Attention agrees best where the encoder does not mix the words"
)
show(
    figure,
    alt="Mean Kendall's tau by model, with intervals over seeds. For BiLSTMs attention agrees with the gradient and "
    "with leave-one-out at 0.1 to 0.4; for the encoder that does not mix words, at about 0.6. Gradient and "
    "leave-one-out agree with each other somewhat better than attention does with either.",
)

# %% [markdown]
# Marks without a bar are models trained once; uniform attention has no order, so no tau. Three directions of the paper hold here:
# attention agrees modestly with either measure, less than they agree with each other, and much better without mixing. The last is
# what the figure's title says; for that encoder the yardstick is no longer clearly above. The yardstick is lower than in the paper: our word vectors are
# frozen ones of another kind, and half of their entries are dropped in training. That is a likely cause; we did not test it.

# %% [markdown]
# ## Try it yourself
#
# Any sentence, any two measures. (The table of the sentence above is the starting point, in case the menu does not appear in your
# viewer.)

# %% tags=["nbval-ignore-output"]
from ipywidgets import Dropdown, Text, interactive


def compare(sentence, first, second):
    """Tau of two measures, and the three words each of them puts first."""
    scores = rankings(model, make_batch([sentence], vocabulary))
    tau = correlation.kendall(scores, first, second)["tau"].iloc[0]
    print(f"tau {tau:.2f}")
    for name in (first, second):
        print(f"{name}: {', '.join(scores.nlargest(3, name)['token'])}")


interactive(
    compare,
    sentence=Text(text, layout={"width": "90%"}),
    first=Dropdown(options=methods, value="attention"),
    second=Dropdown(options=methods, value="gradient"),
)

# %% [markdown]
# ## Exercises
#
# A check says whether you are right, and if not, why. `ex.kendall.hint()` helps, `ex.kendall.solution()` shows an answer.

# %%
ex.kendall


# %% tags=["exercise"]
def my_kendall(first, second):
    """Kendall's tau of two lists of T different numbers, T >= 2."""
    ...


# %%
kendall = ex.kendall.check(my_kendall).value
print(f"the four words again: {kendall(attention, gradient):.2f}")

# %%
ex.r_precision


# %% tags=["exercise"]
def my_r_precision(importance, gold):
    """Share of gold among the most important tokens, as many as there are gold ones.

    importance: list of T different numbers; gold: list of T booleans, at least one True.
    """
    ...


# %%
ex.r_precision.check(my_r_precision)

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
# - Over a BiLSTM attention agrees only modestly with gradients and leave-one-out. These two agree only somewhat better with each other.
# - Where states know one word each, attention agrees well. Much of the disagreement is about states against words.
# - On stories attention names the word where the answer stands, and misses the name on which it depends. "Important" has several
#   meanings, and each measure answers one.

# %% [markdown]
# ## What this does not show
#
# - A rank correlation over all words is dominated by words that matter to nobody. Lesson 10 tests what removing the top words does.
# - Neither gradients nor leave-one-out are the truth. Deleting a word makes a text that the model was not trained on.
# - The gold marks of the stories say which sentence decides, not which of its words the model uses.

# %% [markdown]
# ## Further reading
#
# - Jain, S. & Wallace, B. C. (2019). Attention is not Explanation. *NAACL*. Section 4.1, table 2 and figure 2.
# - Serrano, S. & Smith, N. A. (2019). Is attention interpretable? *ACL*.
# - Sundararajan, M., Taly, A. & Yan, Q. (2017). Axiomatic attribution for deep networks. *ICML*.
# - Kendall, M. G. (1938). A new measure of rank correlation. *Biometrika* 30.
# - Weston, J. et al. (2015). Towards AI-complete question answering: A set of prerequisite toy tasks. *arXiv:1502.05698*.
