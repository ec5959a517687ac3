"""An encoder that has learned nothing: the yardstick of what a model's shape alone gives."""

import torch

from course_utils.models.transformer import Encoder


def untrained(encoder: Encoder, *, seed: int) -> Encoder:
    """The same architecture and tokenizer with weights drawn anew, as before training (the library's own initialisation).

    Word and position embeddings are drawn anew as well. The given encoder and the global random state stay as they are.
    """
    from transformers import AutoModel

    model = encoder.model.base_model
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        fresh = AutoModel.from_config(model.config, attn_implementation="eager", dtype=model.dtype)
    return Encoder(fresh.eval().to(encoder.device), encoder.tokenizer)
