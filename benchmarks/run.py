"""The published algorithms beside the package's, on the same inputs: `python -m benchmarks.run` writes benchmarks/RESULTS.md.

One process, one thread, processor time. Each repeat times all algorithms in turn, so that a machine that slows down slows all, and
what is short is called again until it fills a fraction of a second: a single call of 20 ms measures the caches that it finds.
"""

import argparse
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from benchmarks import published
from course_utils.analysis import adversary, importance, over, permutation
from course_utils.data import Batch, Example, load, make_batch, make_batches
from course_utils.models import AttentionClassifier, AttentionOutput, load_checkpoint

RESULTS = Path(__file__).with_name("RESULTS.md")
EPS = 0.01
LEAST_SECONDS = 0.5
WIDE = 1 << 15  # tokens a batch for experiments that need no encoder, whose caches bound the default
HEADER = f"""# Published algorithms and ours

Written by `python -m benchmarks.run`; see `benchmarks/run.py` for what is timed and `benchmarks/published.py` for the baseline.
Both sides use the same trained model and the same inputs. The baseline runs in batches of 32 sorted by length, as its authors run
it; ours runs in the package's default batches, and where the encoder has run already in batches of {WIDE:,} tokens. Times are
processor time, of as many calls as fill half a second a repeat; making the batches is not timed, our result tables are.

*Encoder pass* is the physical floor of whatever has to read the text: one forward pass of the model, without gradients. Permutation
and adversary change attention after the encoder has run, so both sides are given its output, and only the experiment is timed.
The gradient has no shorter way than one pass forward and one backward, and the baseline goes through the same fast encoder.
"""


class Encoded:
    """A model whose batches have been read already: answers with the recorded output. For experiments on attention alone."""

    def __init__(self, model: AttentionClassifier, batches: Sequence[Batch]):
        self.attention, self.decoder, self.device = model.attention, model.decoder, model.device
        with torch.no_grad():
            self._outputs = {batch.ids.data_ptr(): model(batch) for batch in batches}

    def __call__(self, batch: Batch) -> AttentionOutput:
        return self._outputs[batch.ids.data_ptr()]

    def encode_query(self, batch: Batch) -> None:
        """These models read one text."""


@dataclass
class Timed:
    """Processor seconds that a call takes in each repeat, and the result of the last."""

    function: Callable[[], object]
    seconds: list[float]
    result: object = None

    def run(self) -> None:
        start, spent, calls = time.process_time(), 0.0, 0
        while spent < LEAST_SECONDS:
            self.result = self.function()
            calls += 1
            spent = time.process_time() - start
        self.seconds.append(spent / calls)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


def sorted_batches(examples: Sequence[Example], vocabulary, size: int) -> list[Batch]:
    """Batches of `size` texts, the shortest first."""
    order = sorted(range(len(examples)), key=lambda position: len(examples[position].tokens))
    groups = [order[start : start + size] for start in range(0, len(order), size)]
    batches = [make_batch([examples[position] for position in group], vocabulary) for group in groups]
    return [replace(batch, index=torch.tensor(group)) for batch, group in zip(batches, groups, strict=True)]


def algorithms(
    model: AttentionClassifier, theirs: list[Batch], ours: list[Batch], wide: list[Batch]
) -> dict[str, tuple[Timed, Timed]]:
    """Name to (published, ours); `wide` are the batches of ours for what needs no encoder."""
    encoded = Encoded(model, [*theirs, *wide])
    generator = np.random.default_rng(0)

    def without_gradients(batches):
        with torch.no_grad():
            return [model(batch) for batch in batches]

    pairs = {
        "encoder pass": (lambda: without_gradients(theirs), lambda: without_gradients(ours)),
        "gradient": (
            lambda: [published.gradient(model, batch) for batch in theirs],
            lambda: over(importance.gradient, model, ours),
        ),
        "leave-one-out": (
            lambda: [published.leave_one_out(model, batch) for batch in theirs],
            lambda: over(importance.leave_one_out, model, ours),
        ),
        "100 permutations": (
            lambda: [published.permute(model, batch, encoded(batch), generator) for batch in theirs],
            lambda: over(permutation.permute, encoded, wide, n_permutations=100),
        ),
        "adversary": (
            lambda: over(adversary.published, encoded, theirs, eps=EPS),
            lambda: over(adversary.exact, encoded, wide, eps=EPS),
        ),
    }
    return {name: (Timed(first, []), Timed(second, [])) for name, (first, second) in pairs.items()}


def compare(dataset: str, n_inputs: int, repeats: int) -> str:
    """Time everything on `n_inputs` test texts, evenly spread because some files are sorted by label; a section of RESULTS.md."""
    model, vocabulary = load_checkpoint(f"{dataset}-bilstm-additive")
    test = load(dataset).test
    examples = test[:: max(1, len(test) // n_inputs)][:n_inputs]
    theirs, ours = sorted_batches(examples, vocabulary, published.BATCH_SIZE), make_batches(examples, vocabulary)
    wide = make_batches(examples, vocabulary, token_budget=WIDE)
    few = make_batches(examples[:8], vocabulary)
    for first, second in algorithms(model, theirs[:1], few, few).values():
        first.run()
        second.run()
    timed = algorithms(model, theirs, ours, wide)
    for repeat in range(repeats):
        for name, pair in timed.items():
            for side in pair:
                side.run()
            print(f"{dataset}, repeat {repeat + 1} of {repeats}, {name}: {pair[0].seconds[-1]:.2f} s, {pair[1].seconds[-1]:.2f} s")
    return section(dataset, examples, theirs, repeats, timed)


def section(dataset: str, examples, theirs: list[Batch], repeats: int, timed: dict[str, tuple[Timed, Timed]]) -> str:
    """Times, ratios and the check that both sides computed the same."""
    floor = timed["encoder pass"][1].median
    rows = ["| | published, ms an input | ours, ms an input | times faster | ours, in encoder passes |", "|---|---|---|---|---|"]
    for name, (first, second) in timed.items():
        milliseconds = [f"{1000 * side.median / len(examples):.3g}" for side in (first, second)]
        rows.append(f"| {name} | {' | '.join(milliseconds)} | {first.median / second.median:.3g} | {second.median / floor:.2g} |")
    tokens = statistics.mean(len(example.tokens) for example in examples)
    machine = f"{processor()}, one thread, torch {torch.__version__}, Python {platform.python_version()}"
    return "\n".join(
        [
            f"## {dataset}",
            "",
            f"{len(examples)} test inputs, {tokens:.1f} tokens on average; repeats: {repeats}, median shown. {machine}.",
            "",
            *rows,
            "",
            *agreement(theirs, timed),
        ]
    )


def agreement(theirs: list[Batch], timed: dict[str, tuple[Timed, Timed]]) -> list[str]:
    """What both sides found, in sentences."""
    lines = []
    for name, column in (("gradient", "gradient"), ("leave-one-out", "leave_one_out")):
        first, second = timed[name]
        values = second.result.set_index(["input", "position"])[column]
        expected = pd.concat([one_row_a_token(batch, part) for batch, part in zip(theirs, first.result, strict=True)])
        difference = (values - expected).abs().max()
        lines.append(f"- {name}: same values, largest difference {difference:.1g} on a scale of {expected.max():.2g}.")
    first, second = timed["100 permutations"]
    lines.append(
        f"- 100 permutations: mean of the median change {torch.cat(first.result).mean():.4f} published, "
        f"{second.result['median_change'].mean():.4f} ours (different shuffles)."
    )
    first, second = (side.result["max_jsd"] for side in timed["adversary"])
    lines.append(
        f"- adversary, eps = {EPS}: median max-JSD {first.median():.4f} published, {second.median():.4f} ours (exact); "
        f"the published one is higher on {(first > second + 1e-6).sum()} of {len(first)} inputs."
    )
    return lines


def one_row_a_token(batch: Batch, values: torch.Tensor) -> pd.Series:
    rows, positions = torch.where(batch.mask)
    index = pd.MultiIndex.from_arrays([batch.index[rows].numpy(), positions.numpy()], names=["input", "position"])
    return pd.Series(values[batch.mask].numpy(), index=index)


def processor() -> str:
    """The processor's name, as far as the system tells."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def write(sections: dict[str, str]) -> None:
    """Put new sections into RESULTS.md in place of the old ones of the same data sets."""
    old = RESULTS.read_text(encoding="utf-8").split("\n## ")[1:] if RESULTS.exists() else []
    kept = {text.split("\n", 1)[0]: "## " + text.strip() for text in old}
    RESULTS.write_text("\n\n".join([HEADER.strip(), *(kept | sections).values()]) + "\n", encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    parser.add_argument("--dataset", nargs="+", default=["rotten_tomatoes"], help="data sets with a BiLSTM + additive checkpoint")
    parser.add_argument("--inputs", type=int, default=200, help="how many test inputs")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    for dataset in options.dataset:
        write({dataset: compare(dataset, options.inputs, options.repeats)})
    print(RESULTS.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
