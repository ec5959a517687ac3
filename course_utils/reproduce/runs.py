"""One run: a recipe trained from one seed, and everything measured on it. Runs are independent and are kept as they finish."""

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from course_utils.data import load
from course_utils.errors import CourseError
from course_utils.models.checkpoints import FOLDER, load_checkpoint, write_atomically
from course_utils.models.recipes import RECIPES, checkpoint_name, recipe_of, train_checkpoint
from course_utils.paths import ROOT
from course_utils.reproduce.measures import measure

RESULTS = ROOT / "data" / "results" / "runs.csv"
WORK = ROOT / ".reproduce"
KEYS = ["recipe", "seed", "measure", "group"]


@dataclass(frozen=True)
class Run:
    """A recipe's name and the seed it is trained from; seed 0 is the course's own checkpoint."""

    recipe: str
    seed: int

    @property
    def name(self) -> str:
        return checkpoint_name(self.recipe, self.seed)


def plan(datasets: Sequence[str] | None = None, seeds: int = 3) -> list[Run]:
    """The runs of the given data sets (all that have a recipe unless told), `seeds` of each recipe.

    Raises:
        CourseError: no recipe has such a data set, or seeds is below 1.
    """
    known = sorted({recipe.dataset for recipe in RECIPES.values()})
    wrong = [name for name in datasets or () if name not in known]
    if wrong:
        raise CourseError(f"no recipe trains on {wrong[0]!r}; there are {', '.join(known)}")
    if seeds < 1:
        raise CourseError(f"seeds is {seeds}; give 1 or more")
    names = [name for name, recipe in RECIPES.items() if datasets is None or recipe.dataset in datasets]
    return [Run(name, seed) for seed in range(seeds) for name in names]


def complete(run: Run, work: Path = WORK, *, device: str = "cpu", n_texts: int = 200) -> pd.DataFrame:
    """What was measured in a run; a run that is done is read again, one that was stopped goes on.

    Args:
        work: where models of other seeds and finished runs are kept.
        device: where to train and measure.
        n_texts: as in `measures.measure`; a run measured on another number of texts is measured anew.
    Returns:
        columns of `measures.measure` after `recipe`, `dataset`, `encoder`, `attention`, `decoder`, `seed`.
    Raises:
        KeyboardInterrupt: training was interrupted; the next call goes on.
    """
    kept = work / f"{run.name}.{n_texts}.csv"
    if kept.is_file():
        return read_results(kept)
    folder = work if run.seed else FOLDER
    path = folder / run.name
    if not path.with_name(path.name + ".json").is_file() and train_checkpoint(
        run.recipe, seed=run.seed, device=device, folder=folder
    ).attrs.get("interrupted"):
        raise KeyboardInterrupt
    recipe = recipe_of(run.recipe)
    model, vocabulary = load_checkpoint(path, device=device)
    found = measure(model, vocabulary, load(recipe.dataset), n_texts=n_texts)
    parts = {"recipe": run.recipe, "dataset": recipe.dataset}
    parts |= {name: getattr(recipe.model, name) for name in ("encoder", "attention", "decoder")} | {"seed": run.seed}
    for column, (name, value) in enumerate(parts.items()):
        found.insert(column, name, value)
    write_atomically(kept, found.round(4).to_csv(index=False).encode())
    return read_results(kept)


def complete_all(
    runs: Sequence[Run], work: Path = WORK, *, device: str = "cpu", n_texts: int = 200, n_jobs: int | None = None
) -> pd.DataFrame:
    """All runs, side by side: on a Ray cluster where Ray is installed and started, else through joblib. The results are the same.

    Args:
        n_jobs: runs at the same time; on a CPU one a core unless told, on another device one.
    """
    from tqdm.auto import tqdm

    results = tqdm(_results(runs, work, device, n_texts, n_jobs), total=len(runs), desc="runs", unit="run")
    return pd.concat(list(results), ignore_index=True).sort_values(KEYS, kind="stable", ignore_index=True)


def _results(runs, work, device, n_texts, n_jobs):
    with suppress(ImportError):
        import ray

        if ray.is_initialized() or os.environ.get("RAY_ADDRESS"):
            remote = ray.remote(num_gpus=int(device != "cpu"))(complete)
            for pending in [remote.remote(run, work, device=device, n_texts=n_texts) for run in runs]:
                yield ray.get(pending)
            return
    from joblib import Parallel, delayed

    at_once = n_jobs or (os.cpu_count() or 1 if device == "cpu" else 1)
    call = delayed(complete)
    yield from Parallel(n_jobs=at_once, return_as="generator")(call(run, work, device=device, n_texts=n_texts) for run in runs)


def results(path: Path = RESULTS) -> pd.DataFrame:
    """What the committed runs measured, one row a run, measure and group (see `complete`).

    Raises:
        CourseError: the file is missing.
    """
    if not path.is_file():
        raise CourseError(f"{path} is missing; restore it with git, or make it: python -m course_utils reproduce")
    return read_results(path)


def merge(new: pd.DataFrame, path: Path = RESULTS) -> pd.DataFrame:
    """Put runs into the file of results, in place of earlier ones of the same recipe and seed."""
    rows = new
    if path.is_file():
        old = results(path)
        replaced = pd.MultiIndex.from_frame(old[["recipe", "seed"]]).isin(pd.MultiIndex.from_frame(new[["recipe", "seed"]]))
        rows = pd.concat([old[~replaced], new])
    rows = rows.sort_values(KEYS, kind="stable", ignore_index=True)
    write_atomically(path, rows.to_csv(index=False).encode())
    return rows


def read_results(path: Path) -> pd.DataFrame:
    """A table of results; names such as "none" stay text, only an empty field is missing."""
    return pd.read_csv(path, keep_default_na=False, na_values=[""])
