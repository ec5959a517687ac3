import copy
import warnings

import pytest
import torch
from tiny import TEXTS, save_bert, save_distilbert, save_gpt2
from transformers import AutoModel, AutoTokenizer, BertForSequenceClassification, OPTConfig, OPTModel, T5Config, T5Model

from course_utils.errors import DataError, ModelError
from course_utils.models import Encoder, gate_heads, load_encoder
from course_utils.models.heads import output_weights

SAVED = {"bert": save_bert, "distilbert": save_distilbert, "gpt2": save_gpt2}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return {name: save(tmp_path_factory.mktemp(name)) for name, save in SAVED.items()}


@pytest.fixture(scope="module")
def encoders(folders):
    return {name: load_encoder(folder) for name, folder in folders.items()}


@pytest.fixture(scope="module")
def minilm():
    return load_encoder()


@pytest.fixture(params=SAVED)
def encoder(request, encoders):
    return encoders[request.param]


def test_rows_sum_to_one_and_padding_is_exactly_zero(encoder):
    maps = encoder.attend(TEXTS)
    real = maps.mask[:, None, None, :].expand(maps.attention.shape[:-1])
    assert torch.allclose(maps.attention.sum(-1)[real], torch.ones(int(real.sum())), atol=1e-6)
    assert (maps.attention.sum(-1)[~real] == 0).all()
    assert (maps.attention.sum(-2)[~real] == 0).all()
    assert maps.attention.shape[1:3] == (encoder.n_layers, encoder.n_heads) == (2, 3)


def test_a_causal_model_never_looks_ahead(encoders):
    maps = encoders["gpt2"].attend(TEXTS)
    assert (maps.attention.triu(1) == 0).all()
    assert maps.causal and maps.words().causal and not encoders["bert"].attend(TEXTS).causal
    assert not maps.separator.any()
    assert (maps.special == ~maps.mask).all()


def test_maps_do_not_depend_on_padding_order_or_batch(encoder):
    encoder = Encoder(copy.deepcopy(encoder.model).double(), encoder.tokenizer)
    alone = [encoder.attend([text]) for text in TEXTS]
    seen = set()
    for maps in encoder.stream(TEXTS, token_budget=40):
        for row, position in enumerate(maps.index.tolist()):
            one = maps.one(row)
            assert one.tokens == alone[position].tokens
            assert torch.allclose(one.attention, alone[position].attention, atol=1e-10)
            seen.add(position)
    assert seen == set(range(len(TEXTS)))


def test_stream_respects_its_budget_and_goes_by_length(encoders):
    shapes = [tuple(pieces.ids.shape) for pieces in encoders["bert"].batches(TEXTS * 5, token_budget=50)]
    assert all(rows * width <= 50 for rows, width in shapes)
    assert [width for _, width in shapes] == sorted(width for _, width in shapes)
    assert sum(rows for rows, _ in shapes) == 30


def test_long_texts_come_in_smaller_batches(minilm):
    texts = ["word " * 250] * 12
    assert [len(pieces) for pieces in minilm.batches(texts, token_budget=2048)] == [2] * 6


def test_word_level_is_sum_over_keys_and_mean_over_queries(encoders):
    maps = encoders["bert"].attend(["un ##s", "unbelievable !", "good"])
    assert maps.tokens[1] == ("[CLS]", "un", "##believ", "##able", "!", "[SEP]")
    words = maps.words()
    assert words.tokens == (
        ("[CLS]", "un", "#", "#", "s", "[SEP]"),
        ("[CLS]", "unbelievable", "!", "[SEP]"),
        ("[CLS]", "good", "[SEP]"),
    )
    pieces = maps.attention[1]
    assert torch.allclose(words.attention[1, ..., 0, 1], pieces[..., 0, 1:4].sum(-1))
    assert torch.allclose(words.attention[1, ..., 1, 0], pieces[..., 1:4, 0].mean(-1))
    assert torch.allclose(words.attention[1, ..., 1, 1], pieces[..., 1:4, 1:4].sum(-1).mean(-1))
    real = words.mask[:, None, None, :].expand(words.attention.shape[:-1])
    assert torch.allclose(words.attention.sum(-1)[real], torch.ones(int(real.sum())), atol=1e-6)
    assert words.special[1].tolist() == [True, False, False, True, True, True]
    assert words.separator[2].tolist() == [False, False, True, False, False, False]
    assert torch.equal(words.words().attention, words.attention)


def test_punctuation_separator_and_special(encoders):
    maps = encoders["bert"].attend(["good , isn't it ?", "😀"])
    marks = [token for token, mark in zip(maps.tokens[0], maps.punctuation[0], strict=False) if mark]
    assert marks == [",", "'", "?"]
    assert not maps.punctuation[1].any()
    assert maps.separator.sum(1).tolist() == [1, 1]
    assert maps.special[1].tolist()[:3] == [True, False, True]


@pytest.mark.parametrize("texts", [[""], ["good", "  \n "], [], "good film", [None], ["good", 3]])
def test_texts_without_content_are_refused(encoder, texts):
    with pytest.raises(DataError):
        encoder.attend(texts)


def test_one_token_emoji_and_very_different_lengths(minilm):
    maps = minilm.attend(["ok", "😀😀", "a " * 200])
    assert [len(tokens) for tokens in maps.tokens] == [3, 3, 202]
    assert torch.allclose(maps.one(0).attention, minilm.attend(["ok"]).attention, atol=1e-5)


def test_truncation_is_announced_once_and_keeps_the_last_separator(minilm):
    with pytest.warns(UserWarning, match="1 of 2 texts are longer than 512 tokens") as told:
        widths = [maps.tokens[-1] for maps in minilm.stream(["ok", "a " * 600])]
    assert len(told) == 1
    assert len(widths[-1]) == 512 and widths[-1][-1] == "[SEP]"
    with pytest.warns(UserWarning, match="longer than 5 tokens"):
        assert minilm.pieces(["one two three four five"], max_tokens=5).tokens == (("[CLS]", "one", "two", "three", "[SEP]"),)
    with pytest.raises(DataError, match="no room"):
        minilm.attend(["one"], max_tokens=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        minilm.pieces(["a " * 510])


def test_a_model_without_attentions_says_why_and_what_to_do(folders):
    model = AutoModel.from_pretrained(folders["bert"]).eval()
    encoder = Encoder(model, AutoTokenizer.from_pretrained(folders["bert"]))
    with pytest.raises(ModelError, match="'sdpa'.*attn_implementation='eager'"):
        encoder.attend(TEXTS)


def test_training_mode_is_refused(folders):
    encoder = load_encoder(folders["bert"])
    encoder.model.train()
    with pytest.raises(ModelError, match="eval"):
        encoder.attend(TEXTS)


def test_loading_prints_nothing_and_gives_float32(folders, capfd):
    AutoModel.from_pretrained(folders["bert"], dtype=torch.float16).save_pretrained(folders["bert"] / "half")
    AutoTokenizer.from_pretrained(folders["bert"]).save_pretrained(folders["bert"] / "half")
    capfd.readouterr()
    encoder = load_encoder(folders["bert"] / "half")
    assert encoder.model.dtype == torch.float32 and not encoder.model.training
    assert encoder.model.config._attn_implementation == "eager"
    assert capfd.readouterr() == ("", "")


def test_what_cannot_be_loaded_says_what_is_missing(tmp_path):
    with pytest.raises(ModelError, match=r"model\.safetensors.*minilm"):
        load_encoder("nobody/has-this-model")
    with pytest.raises(ModelError, match="folder"):
        load_encoder(tmp_path)
    T5Model(T5Config(vocab_size=9, d_model=4, d_kv=2, d_ff=4, num_layers=1, num_heads=2)).save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="encoder-decoder"):
        load_encoder(tmp_path)


def _run(encoder, pieces, model=None):
    with torch.no_grad():
        return (model or encoder.model)(input_ids=pieces.ids, attention_mask=pieces.mask.long()).last_hidden_state


def _hooks(model):
    return [(list(module._forward_pre_hooks), list(module._forward_hooks)) for module in model.modules()]


def test_open_gates_change_nothing_and_hooks_leave_no_trace(encoder):
    pieces = encoder.pieces(TEXTS)
    before, hooks = _run(encoder, pieces), _hooks(encoder.model)
    with gate_heads(encoder.model, torch.ones(2, 3)):
        assert torch.equal(_run(encoder, pieces), before)
    with gate_heads(encoder.model, torch.zeros(2, 3)):
        assert not torch.allclose(_run(encoder, pieces), before)
    assert torch.equal(_run(encoder, pieces), before)
    with pytest.raises(RuntimeError, match="in the middle"), gate_heads(encoder.model, torch.zeros(2, 3)):
        raise RuntimeError("in the middle")
    assert torch.equal(_run(encoder, pieces), before)
    assert _hooks(encoder.model) == hooks


def test_a_closed_gate_equals_zeroed_weights(encoder):
    pieces = encoder.pieces(TEXTS)
    gates = torch.ones(2, 3)
    gates[1, 2] = 0
    edited = copy.deepcopy(encoder.model)
    layers = {"bert": "encoder.layer.1.attention.output.dense", "distilbert": "transformer.layer.1.attention.out_lin"}
    module = edited.get_submodule(layers.get(edited.config.model_type, "h.1.attn.c_proj"))
    with torch.no_grad():
        if isinstance(module, torch.nn.Linear):
            module.weight[:, 8:] = 0
        else:
            module.weight[8:] = 0
    with gate_heads(encoder.model, gates):
        gated = _run(encoder, pieces)
    assert torch.allclose(gated, _run(encoder, pieces, edited), atol=1e-6)


def test_gates_of_each_input_and_their_gradient(encoder):
    pieces = encoder.pieces(TEXTS)
    each = torch.ones(len(pieces), 2, 3, requires_grad=True)
    with gate_heads(encoder.model, each):
        output = encoder.model(input_ids=pieces.ids, attention_mask=pieces.mask.long()).last_hidden_state
    (output * pieces.mask[..., None]).square().sum().backward()
    assert each.grad.abs().sum((1, 2)).gt(0).all()
    with gate_heads(encoder.model, torch.eye(len(pieces))[0][:, None, None].expand(-1, 2, 3)):
        mixed = _run(encoder, pieces)
    assert torch.allclose(mixed[0], _run(encoder, pieces)[0], atol=1e-6)
    with gate_heads(encoder.model, torch.zeros(2, 3)):
        assert torch.allclose(mixed[1], _run(encoder, pieces)[1], atol=1e-6)


def test_gates_reach_through_a_task_head_and_refuse_what_they_do_not_know(folders, encoders):
    model = BertForSequenceClassification.from_pretrained(folders["bert"], attn_implementation="eager").eval()
    encoder = Encoder(model, encoders["bert"].tokenizer)
    assert torch.allclose(encoder.attend(TEXTS).attention, encoders["bert"].attend(TEXTS).attention)
    with gate_heads(model, torch.ones(2, 3)):
        pass
    with pytest.raises(ModelError, match=r"\(3, 2\).*\(2, 3\)"), gate_heads(model, torch.ones(3, 2)):
        pass
    other = OPTModel(
        OPTConfig(vocab_size=9, hidden_size=4, num_hidden_layers=1, ffn_dim=4, num_attention_heads=2, word_embed_proj_dim=4)
    )
    with pytest.raises(ModelError, match="OPTModel.*BERT"), gate_heads(other, torch.ones(1, 2)):
        pass


def test_values_and_output_weights_rebuild_the_attention_output(encoder):
    """attention @ values @ output weights + bias is what the projection gives (Kobayashi et al. 2020, equation 2)."""
    caught = []
    paths = {"bert": "encoder.layer.1.attention.output.dense", "distilbert": "transformer.layer.1.attention.out_lin"}
    projection = encoder.model.get_submodule(paths.get(encoder.model.config.model_type, "h.1.attn.c_proj"))
    handle = projection.register_forward_hook(lambda module, inputs, output: caught.append(output))
    maps = encoder.attend(TEXTS, states=True)
    handle.remove()
    written = torch.einsum("bnqk,bnkd,ndh->bqh", maps.attention[:, 1], maps.values[:, 1], output_weights(encoder.model)[1])
    assert torch.allclose((written + projection.bias)[maps.mask], caught[0][maps.mask], atol=1e-5)
    assert maps.hidden.shape == (len(TEXTS), 3, maps.mask.shape[1], 12)


def test_minilm_has_72_heads(minilm):
    maps = minilm.attend(["A truly unbelievable film."])
    assert maps.attention.shape[1:3] == (6, 12)
    assert maps.words().tokens == (("[CLS]", "A", "truly", "unbelievable", "film", ".", "[SEP]"),)
