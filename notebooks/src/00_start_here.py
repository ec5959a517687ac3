# %% [markdown]
# # Start here
#
# Does everything work on this machine, and what is this course about?
#
# **Time** 10 minutes. **Builds on** Python, and having seen a neural network before. Nothing about attention is assumed.
#
# Afterwards you will be able to
#
# - tell whether your machine can run every lesson, and what to do where it cannot;
# - read a token heat map of attention weights;
# - state the question of the course on an example: two different attentions, one prediction.

# %%
import torch
from course_utils import doctor, exercises
from course_utils.analysis.adversary import exact_attention
from course_utils.data import load, make_batch
from course_utils.models import load_checkpoint
from course_utils.show import counterfactual, heatmap

ex = exercises.load("00")

# %% [markdown]
# ## Does everything work here?
#
# The next cell checks Python, the packages, memory, the data and the pretrained encoder. Every line should say *ok*. Where one does
# not, the line says what to do. Nothing is downloaded: all lessons run without a network.

# %% tags=["nbval-ignore-output"]
doctor.report()

# %% [markdown]
# ## Predict first
#
# Below, a model reads a sentence from a film review and says whether the review is positive. On the way it spreads *attention* over
# the words: weights that sum to 1. It is tempting to read them as the reason for the decision.
#
# Suppose someone replaces the attention by a very different one, and changes nothing else. Write down what you expect of the
# prediction: `"changes a lot"`, `"changes a little"` or `"stays"`.

# %%
my_guess = "changes a lot"

# %% [markdown]
# ## The idea
#
# The model gives each word $t$ a state $h_t$ and a weight $\alpha_t$, and decides from the weighted average of the states,
#
# $$c = \sum_t \alpha_t h_t, \qquad \alpha_t \ge 0, \qquad \sum_t \alpha_t = 1.$$
#
# With three words and states of a single number you can do it in your head.

# %%
alpha = torch.tensor([0.1, 0.8, 0.1])
h = torch.tensor([0.0, 2.0, -1.0])
print(f"c = 0.1 * 0 + 0.8 * 2 + 0.1 * (-1) = {alpha @ h:.1f}")

# %% [markdown]
# ## On real text
#
# A classifier trained on review sentences comes with the course. We give it a sentence that it has never seen.

# %%
reviews = load("rotten_tomatoes")
model, vocabulary = load_checkpoint("rotten_tomatoes-bilstm-additive")
batch = make_batch(
    ["the film is insightful about kissinger's background and history ."], vocabulary
)
with torch.no_grad():
    output = model(batch)
print(f"probability of a positive review: {output.probabilities[0, 1]:.2f}")

# %% tags=["nbval-ignore-output"]
heatmap(
    batch.tokens[0],
    output.attention[0],
    title="Nearly all attention is on one word: insightful",
)

# %% [markdown]
# It looks like a reason: the review is positive because the film is called *insightful*. Now the same model, the same sentence, the
# same states, and other weights.

# %% tags=["nbval-ignore-output"]
other = exact_attention(output.attention, output.token_logits, batch.mask, eps=0.01)
counterfactual(model, batch, other.attention, classes=reviews.classes)

# %%
with torch.no_grad():
    changed = model(batch, attention=other.attention.float())
before, after = output.probabilities[0, 1], changed.probabilities[0, 1]
print(f"before {before:.2f}, after {after:.2f}")
print(f"you expected that the prediction {my_guess}")

# %% [markdown]
# The prediction stays. Was *insightful* the reason, then? Or *film*? Or neither? That is the question of this course.

# %% [markdown]
# ## The claim: attention is not explanation
#
# | who | what they say | lesson |
# |---|---|---|
# | Jain & Wallace (2019) | different attention, same prediction: the weights are not *the* explanation | 05 to 08 |
# | Wiegreffe & Pinter (2019) | that other weights exist does not make these weights meaningless; test it properly | 09 |
# | Serrano & Smith (2019) | attention finds important words only in part; remove them and see | 10 |
#
# You will run all of these experiments, on this model and on others, and judge for yourself.

# %% [markdown]
# ## Try it yourself
#
# Change the sentence and run the two cells. Which words does the model attend to? Words it has never met count as unknown.

# %%
my_sentence = "a dull story , but the actors are wonderful"

# %% tags=["nbval-ignore-output"]
mine = make_batch([my_sentence], vocabulary)
with torch.no_grad():
    reading = model(mine)
heatmap(
    mine.tokens[0],
    reading.attention[0],
    title=f"Probability of a positive review: {reading.probabilities[0, 1]:.2f}",
)

# %% [markdown]
# ## Exercises
#
# Every lesson ends with exercises that check themselves. A check says *right*, *wrong* and why, or *not tried yet*. Replace the
# three dots, run the cell, then run the check. Here is one to see how it works.

# %%
ex.average

# %% tags=["exercise"]
my_average = ...

# %%
ex.average.check(my_average)

# %% [markdown]
# When you are stuck, `ex.average.hint()` gives a hint and `ex.average.solution()` an answer.

# %%
ex.progress()

# %% [markdown]
# ## What to take away
#
# - Attention weights are an average's weights: not negative, with sum 1.
# - Two very different attentions can give the same prediction.
# - So a picture of attention needs an experiment before it is an explanation.

# %% [markdown]
# ## What this does not show
#
# One sentence and one model. How often such another attention exists, how it is found, and for which sentences it does *not* exist
# is the subject of lesson 08.

# %% [markdown]
# ## Further reading
#
# - Jain, S. & Wallace, B. C. (2019). Attention is not Explanation. *NAACL*.
# - Wiegreffe, S. & Pinter, Y. (2019). Attention is not not Explanation. *EMNLP*.
# - Serrano, S. & Smith, N. A. (2019). Is Attention Interpretable? *ACL*.
