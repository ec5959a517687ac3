"""Initial word vectors from the packaged encoder's WordPiece table: no download, and a vector for any word that can be spelled."""

import torch
from safetensors import safe_open
from tokenizers import Tokenizer

from course_utils.data import Vocabulary
from course_utils.models.pretrained import encoder_folder

SCALE = 0.3


def wordpiece_embeddings(vocabulary: Vocabulary) -> torch.Tensor:
    """One vector a word: the mean over its pieces in MiniLM's input table, scaled to standard deviation 0.3.

    Returns:
        (V, 384) float32. Row 0 (padding) is zero; row 1 (unknown) is the table's own [UNK] vector.
    """
    folder = encoder_folder()
    with safe_open(folder / "model.safetensors", framework="pt") as tensors:
        table = tensors.get_tensor("embeddings.word_embeddings.weight").float()
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    words = ["[UNK]", *vocabulary.words[2:]]
    pieces = [encoding.ids for encoding in tokenizer.encode_batch(words, add_special_tokens=False)]
    unknown = tokenizer.token_to_id("[UNK]")
    pieces = [ids or [unknown] for ids in pieces]
    offsets = torch.tensor([0, *map(len, pieces[:-1])]).cumsum(0)
    vectors = torch.nn.functional.embedding_bag(torch.tensor([i for ids in pieces for i in ids]), table, offsets, mode="mean")
    vectors = vectors * (SCALE / vectors.std())
    return torch.cat([torch.zeros(1, table.shape[1]), vectors])
