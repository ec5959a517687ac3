"""Tiny random models saved to a folder, as somebody's own model would be: the same functions must take them."""

from pathlib import Path

import torch
from tokenizers import ByteLevelBPETokenizer
from transformers import (
    BertConfig,
    BertModel,
    BertTokenizer,
    DistilBertConfig,
    DistilBertModel,
    GPT2Config,
    GPT2Model,
    GPT2Tokenizer,
)

from course_utils.models import load_encoder
from course_utils.models.finetuned import EncoderClassifier

WORDS = "the a film movie good bad was is not very un ##believ ##able ##s plot actor of and in it , . ! ? ' he she"
TEXTS = [
    "the film was good .",
    "a bad movie , and unbelievable !",
    "it is not very good , is it ?",
    "the actors of the film",
    "she was in it",
    "bad plot . bad actor . good movie !",
]


def save_bert(folder: Path, *, layers: int = 2, heads: int = 3, seed: int = 0, sigma: float = 0.4) -> Path:
    """A BertModel whose weights are large enough for its attention to have a shape."""
    tokenizer = _save_wordpiece(folder)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=4 * heads,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=16,
        max_position_embeddings=64,
        initializer_range=sigma,
    )
    return _save_model(BertModel, config, folder, seed)


def classifier(folder: Path) -> EncoderClassifier:
    """A classifier of two classes over `save_bert`'s model, with a head whose weights are not 0."""
    made = EncoderClassifier(load_encoder(save_bert(folder))).eval().requires_grad_(False)
    made.head.weight.copy_(torch.randn(made.head.weight.shape, generator=torch.Generator().manual_seed(3)))
    return made


def save_distilbert(folder: Path) -> Path:
    tokenizer = _save_wordpiece(folder)
    config = DistilBertConfig(
        vocab_size=len(tokenizer), dim=12, n_layers=2, n_heads=3, hidden_dim=16, max_position_embeddings=64, initializer_range=0.4
    )
    return _save_model(DistilBertModel, config, folder)


def save_gpt2(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    bpe = ByteLevelBPETokenizer()
    bpe.train_from_iterator(TEXTS, vocab_size=300, special_tokens=["<|endoftext|>"], show_progress=False)
    bpe.save_model(str(folder))
    GPT2Tokenizer.from_pretrained(folder).save_pretrained(folder)
    config = GPT2Config(
        vocab_size=bpe.get_vocab_size(),
        n_embd=12,
        n_layer=2,
        n_head=3,
        n_positions=64,
        initializer_range=0.4,
        bos_token_id=0,
        eos_token_id=0,
    )
    return _save_model(GPT2Model, config, folder)


def _save_wordpiece(folder: Path) -> BertTokenizer:
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = folder / "vocab.txt"
    vocabulary.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS.split()]), encoding="utf-8")
    tokenizer = BertTokenizer.from_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return tokenizer


def _save_model(kind, config, folder: Path, seed: int = 0) -> Path:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        kind(config).save_pretrained(folder)
    return folder
