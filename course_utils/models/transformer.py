"""Pretrained Transformers, opened so that every head's attention can be seen.

Any model of the hub or of a folder works that a transformers AutoModel can load. Attention is always the eager implementation:
the faster ones never build the map, and return none.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path

import torch
from tqdm.auto import tqdm

from course_utils.errors import ModelError
from course_utils.models.heads import capture_values
from course_utils.models.maps import AttentionMaps
from course_utils.models.pieces import Pieces, ReadText, pad, read
from course_utils.models.pretrained import encoder_folder

_CELLS_A_TOKEN = 64


def load_encoder(name: str | Path = "minilm") -> "Encoder":
    """A pretrained Transformer and its tokenizer: evaluation mode, float32, eager attention, nothing printed.

    Args:
        name: "minilm" (6 layers x 12 heads, installed with the course), a folder, or a name of the Hugging Face hub. A hub name is
            looked for on this machine first; only if it is not there it is fetched, and that is announced.
    Raises:
        ModelError: it is not there and cannot be fetched, or it is no encoder or decoder of one sequence.
    """
    source = str(encoder_folder() if name == "minilm" else name)
    try:
        return _load(source)
    except (OSError, ValueError) as error:
        if Path(source).is_dir():
            raise ModelError(f"the folder {source} holds no model that transformers can load: {error}") from error
    _fetch(source)
    return _load(source)


class Encoder:
    """A transformers model together with its tokenizer.

    Args:
        model: a model that returns attentions (`attn_implementation="eager"`), in evaluation mode. One with a task's head on top
            works too; its `base_model` is run.
        tokenizer: its fast tokenizer.
    """

    def __init__(self, model: torch.nn.Module, tokenizer):
        if not tokenizer.is_fast:
            raise ModelError(f"{type(tokenizer).__name__} does not say which word a piece belongs to; use the fast tokenizer")
        if tokenizer.pad_token is None:
            tokenizer.pad_token = tokenizer.eos_token or tokenizer.unk_token
        tokenizer.padding_side = "right"
        self.model, self.tokenizer = model, tokenizer

    @property
    def device(self) -> torch.device:
        return self.model.device

    @property
    def n_layers(self) -> int:
        return self.model.config.num_hidden_layers

    @property
    def n_heads(self) -> int:
        return self.model.config.num_attention_heads

    @property
    def longest(self) -> int:
        """Most tokens the model takes, special ones included."""
        positions = getattr(self.model.config, "max_position_embeddings", None) or self.tokenizer.model_max_length
        return min(positions, self.tokenizer.model_max_length)

    def pieces(self, texts: Sequence[str], *, max_tokens: int = 512) -> Pieces:
        """The texts as one padded batch of word pieces.

        Args:
            max_tokens: longer texts lose their end, with a warning that counts them; never more than the model takes.
        Raises:
            DataError: no text, something that is not text, or a text without any token.
        """
        read_texts = self._read(texts, max_tokens)
        return self._pad(read_texts, range(len(read_texts)))

    def attend(self, texts: Sequence[str] | Pieces, *, max_tokens: int = 512, states: bool = False) -> AttentionMaps:
        """Every head's attention over the texts, in one batch.

        Args:
            texts: strings, or what `pieces` made of them.
            max_tokens: as in `pieces`.
            states: whether to keep hidden states and value vectors as well.
        Raises:
            DataError: as in `pieces`.
            ModelError: the model returns no attentions, or is in training mode.
        """
        pieces = texts if isinstance(texts, Pieces) else self.pieces(texts, max_tokens=max_tokens)
        if self.model.training:
            raise ModelError("the model is in training mode: dropout makes attention rows not sum to 1; call model.eval() first")
        base = self.model.base_model
        with torch.no_grad(), capture_values(self.model, keep=states) as values:
            output = base(
                input_ids=pieces.ids, attention_mask=pieces.mask.long(), output_attentions=True, output_hidden_states=states
            )
        if not output.attentions or output.attentions[0] is None:
            raise ModelError(
                f"{type(base).__name__} returned no attentions: its attention implementation is "
                f"{base.config._attn_implementation!r}, which never builds the map. "
                "Load it by load_encoder, or with attn_implementation='eager'"
            )
        attention = torch.stack(output.attentions, 1)
        attention *= pieces.mask[:, None, None, :, None]
        return AttentionMaps(
            **{field.name: getattr(pieces, field.name) for field in fields(Pieces)},
            attention=attention,
            causal=not attention.triu(1).any(),
            hidden=torch.stack(output.hidden_states, 1) if states else None,
            values=torch.stack(values, 1) if states else None,
        )

    def batches(
        self, texts: Sequence[str], *, token_budget: int = 2048, max_tokens: int = 512, progress: bool = False
    ) -> Iterator[Pieces]:
        """The texts as padded batches, from the shortest texts to the longest; `index` says where each text stood.

        Args:
            token_budget: most padded tokens a batch. Maps grow with the square of the length, so a batch also has at most
                64 x token_budget cells a head: long texts come in smaller batches. One text is always let through.
            progress: whether to show a bar over the texts.
        """
        read_texts = self._read(texts, max_tokens)
        order = sorted(range(len(read_texts)), key=lambda position: len(read_texts[position].ids))
        groups: list[list[int]] = [[]]
        for position in order:
            longest = len(read_texts[position].ids)
            fits = longest * (len(groups[-1]) + 1) <= token_budget * min(1, _CELLS_A_TOKEN / longest)
            if groups[-1] and not fits:
                groups.append([])
            groups[-1].append(position)
        with tqdm(total=len(read_texts), unit="text", disable=not progress) as bar:
            for group in groups:
                yield self._pad([read_texts[position] for position in group], group)
                bar.update(len(group))

    def stream(
        self,
        texts: Sequence[str],
        *,
        token_budget: int = 2048,
        max_tokens: int = 512,
        states: bool = False,
        progress: bool = False,
    ) -> Iterator[AttentionMaps]:
        """Attention over a corpus, a batch at a time, so that only statistics need to be kept.

        Arguments as in `batches` and `attend`.
        """
        for pieces in self.batches(texts, token_budget=token_budget, max_tokens=max_tokens, progress=progress):
            yield self.attend(pieces, states=states)

    def _read(self, texts: Sequence[str], max_tokens: int) -> list[ReadText]:
        return read(self.tokenizer, texts, min(max_tokens, self.longest))

    def _pad(self, texts: Sequence[ReadText], index: Sequence[int]) -> Pieces:
        return pad(texts, self.tokenizer, index).to(self.device)


def _load(source: str) -> Encoder:
    from transformers import AutoConfig, AutoModel, AutoTokenizer

    with _silent():
        config = AutoConfig.from_pretrained(source, local_files_only=True)
        if config.is_encoder_decoder:
            raise ModelError(
                f"{source!r} is an encoder-decoder; its attention is three kinds of maps. Choose an encoder or a decoder"
            )
        tokenizer = AutoTokenizer.from_pretrained(source, local_files_only=True)
        model = AutoModel.from_pretrained(
            source, config=config, attn_implementation="eager", dtype=torch.float32, use_safetensors=True, local_files_only=True
        )
    return Encoder(model.eval(), tokenizer)


def _fetch(name: str) -> None:
    """Download a model of the hub into the local store, after saying so."""
    from huggingface_hub import HfApi, snapshot_download

    wanted = ("*.json", "*.txt", "*.model", "model*.safetensors")
    try:
        files = HfApi().model_info(name, files_metadata=True, timeout=10).siblings
        size = sum(file.size or 0 for file in files if file.rfilename.endswith(".safetensors"))
        print(f"{name!r} is not on this machine: fetching {size / 1e6:.0f} MB from https://huggingface.co/{name}")
        snapshot_download(name, allow_patterns=list(wanted))
    except Exception as error:  # each version of the hub's client raises its network library's own errors
        raise ModelError(
            f"model {name!r} is no folder, is not stored on this machine, and could not be fetched from huggingface.co: its "
            "config.json, tokenizer.json and model.safetensors are missing. Check the name and the network, or use 'minilm', "
            "which needs no network"
        ) from error


@contextmanager
def _silent() -> Iterator[None]:
    """No load report and no bars of transformers, and its settings as they were afterwards."""
    from transformers.utils import logging

    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()
