"""What a training needs to go on after a pause, in one file: tensors, the optimiser's state, and a note of whose they are."""

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as tensors_to_bytes

from course_utils.errors import ModelError
from course_utils.models.checkpoints import write_atomically

Tensors = Mapping[str, torch.Tensor]


def suspend(path: Path, parts: Mapping[str, Tensors], optimiser: torch.optim.Optimizer, note: Mapping[str, str]) -> None:
    """Write everything that `resume` gives back.

    Args:
        parts: tensors by name, in groups; "model" are the weights that are trained.
        note: what identifies the run, and how far it has come.
    """
    tensors = {f"{part}.{name}": tensor for part, group in parts.items() for name, tensor in group.items()}
    for number, entry in optimiser.state_dict()["state"].items():
        tensors |= {f"optimiser.{number}.{key}": tensor for key, tensor in entry.items()}
    tensors = {name: tensor.detach().contiguous().cpu() for name, tensor in tensors.items()}
    write_atomically(path, tensors_to_bytes(tensors, metadata=dict(note)))


def resume(
    path: Path, weights: Tensors, optimiser: torch.optim.Optimizer, run: Mapping[str, str]
) -> tuple[dict[str, dict[str, torch.Tensor]], dict[str, str]]:
    """The parts and the note of a suspended run; the optimiser takes its state from there.

    Args:
        weights: those that are trained, for their names and shapes.
        run: entries of the note by which the run is known.
    Raises:
        ModelError: the file is damaged, or of another run or architecture.
    """
    try:
        with safe_open(path, framework="pt") as file:
            note = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise ModelError(f"{path} is damaged ({error}); delete it to start again") from error
    parts: dict[str, dict[str, torch.Tensor]] = {"model": {}, "optimiser": {}}
    for name, tensor in tensors.items():
        part, key = name.split(".", 1)
        parts.setdefault(part, {})[key] = tensor
    same_shapes = {name: tensor.shape for name, tensor in parts["model"].items()} == {name: w.shape for name, w in weights.items()}
    if any(note.get(key) != value for key, value in run.items()) or not same_shapes:
        raise ModelError(f"{path} belongs to another run ({note.get('config')}); delete it or give another resume_file")
    entries: dict[int, dict[str, torch.Tensor]] = {}
    for name, tensor in parts.pop("optimiser").items():
        number, key = name.split(".")
        entries.setdefault(int(number), {})[key] = tensor
    optimiser.load_state_dict(optimiser.state_dict() | {"state": entries})
    return parts, note
