"""The change of a model's weights in a small file: matrices by their first singular vectors, vectors in full.

Fine-tuning moves a matrix along few directions (Aghajanyan et al. 2021; the reason why LoRA works, Hu et al. 2022), so its change
can be stored by them, and the packaged encoder need not be stored a second time.
"""

from collections.abc import Mapping

import torch

from course_utils.errors import ModelError

State = Mapping[str, torch.Tensor]


def change_of(before: State, after: State, rank: int) -> dict[str, torch.Tensor]:
    """What changed from one state to the other.

    Among all matrices of this rank the one stored is, up to rounding, the nearest to the change (Eckart & Young 1936): its squared
    distance is the sum of the squared singular values left out.

    Args:
        before: by name, the tensors at the start; those that `after` lacks are not compared.
        after: the tensors at the end, of the same names and shapes. Tensors that did not change take no room.
        rank: singular values kept of each matrix, 1 or more. A matrix too small to gain by it is stored in full.
    Returns:
        for each changed tensor NAME either `NAME:change` in half precision, or singular vectors in whole numbers from -127 to 127,
        `NAME:left` (R, rank) and `NAME:right` (rank, C), and what their products are multiplied by, `NAME:scale` (rank,).
    """
    if rank < 1:
        raise ModelError(f"rank is {rank}; keep 1 singular value or more")
    parts = {}
    for name, end in after.items():
        change = (end - before[name]).detach().float().cpu()
        if not change.any():
            continue
        if change.dim() == 2 and rank * sum(change.shape) < change.numel():
            left, values, right = torch.linalg.svd(change, full_matrices=False)
            (left, left_step), (right, right_step) = _rounded(left[:, :rank].T), _rounded(right[:rank])
            scale = values[:rank] * left_step * right_step
            parts |= {f"{name}:left": left.T, f"{name}:right": right, f"{name}:scale": scale}
        else:
            parts[f"{name}:change"] = change.half()
    return {name: tensor.contiguous() for name, tensor in parts.items()}


def _rounded(vectors: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Each row in 255 equal steps, as int8, and the size of its steps."""
    step = vectors.abs().amax(1) / 127
    return (vectors / step[:, None]).round().to(torch.int8), step


def apply_change(before: State, parts: State) -> dict[str, torch.Tensor]:
    """The tensors that `parts` (of `change_of`) changes, as they are after the change.

    Raises:
        ModelError: a part has no tensor in `before`, another shape, or lacks the parts that belong to it.
    """
    changed = {}
    for name in sorted({part.rpartition(":")[0] for part in parts}):
        try:
            if f"{name}:change" in parts:
                change = parts[f"{name}:change"].float()
            else:
                left, scale, right = (parts[f"{name}:{part}"].float() for part in ("left", "scale", "right"))
                change = left * scale @ right
        except (KeyError, RuntimeError) as error:
            raise ModelError(f"the change of {name!r} is incomplete: {error}") from error
        shape = tuple(before[name].shape) if name in before else None
        if tuple(change.shape) != shape:
            raise ModelError(f"a change of {name!r} of shape {tuple(change.shape)} does not fit a model where it has {shape}")
        changed[name] = before[name] + change.to(before[name])
    return changed
