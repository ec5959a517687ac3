import networkx
import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import spearmanr
from tiny import TEXTS, save_bert, save_gpt2

from course_utils.analysis.flow import (
    agreement_with_blank_out,
    blank_out,
    max_flow,
    mean_heads,
    norm_weights,
    query_weights,
    rollout,
    with_residual,
)
from course_utils.errors import AnalysisError
from course_utils.models import Encoder, load_encoder


@pytest.fixture(scope="module", params=[save_bert, save_gpt2], ids=["bert", "gpt2"])
def encoder(request, tmp_path_factory):
    encoder = load_encoder(request.param(tmp_path_factory.mktemp("model")))
    return Encoder(encoder.model.double(), encoder.tokenizer)


def tensor(*layers):
    return torch.tensor(layers, dtype=torch.float64)


# Two layers, two tokens, not symmetric. With the residual: layer 0 [[.5, .5], [0, 1]], layer 1 [[.75, .25], [.5, .5]].
NETWORK = tensor([[0.0, 1.0], [0.0, 1.0]], [[0.5, 0.5], [1.0, 0.0]])


def test_rollout_by_hand():
    assert torch.allclose(with_residual(NETWORK), tensor([[0.5, 0.5], [0.0, 1.0]], [[0.75, 0.25], [0.5, 0.5]]))
    rolled = rollout(NETWORK)
    assert torch.allclose(rolled[0], tensor([0.5, 0.5], [0.0, 1.0]))
    assert torch.allclose(rolled[1], tensor([0.375, 0.625], [0.25, 0.75]))
    assert torch.allclose(rollout(NETWORK, residual=1), torch.eye(2, dtype=torch.float64).expand(2, 2, 2))
    assert torch.allclose(rollout(NETWORK, residual=0)[1], tensor([0.0, 1.0], [0.0, 1.0]))


def test_rows_that_do_not_sum_to_one_are_divided_by_their_sum_not_by_the_column():
    scaled = NETWORK * tensor([[3.0], [0.2]], [[7.0], [1.0]])
    assert torch.allclose(rollout(scaled), rollout(NETWORK))
    assert torch.allclose(rollout(scaled).sum(-1), torch.ones(2, 2, dtype=torch.float64))


def test_flow_by_hand():
    """To token 0 after layer 1: .75 through its own state, .25 through token 1's.

    Input 0 can only use its own .5 into state 0, so .5; input 1 gets .5 through state 0 and .25 through state 1, so .75.
    """
    first = tensor(1.0, 0.0)
    assert max_flow(NETWORK, first).tolist() == pytest.approx([0.5, 0.75], abs=1e-7)
    assert max_flow(NETWORK, tensor(0.0, 1.0)).tolist() == pytest.approx([0.5, 1.0], abs=1e-7)
    assert max_flow(NETWORK, first, layer=0).tolist() == pytest.approx([0.5, 0.5], abs=1e-7)
    assert max_flow(NETWORK, tensor(0.5, 0.5)).tolist() == pytest.approx([0.5, 1.0], abs=1e-7)
    with pytest.raises(AnalysisError, match="one text"):
        max_flow(NETWORK[None], first)


@pytest.mark.parametrize("seed", range(3))
def test_flow_agrees_with_networkx(seed):
    generator = torch.Generator().manual_seed(seed)
    weights = (2 * torch.randn(3, 5, 5, generator=generator, dtype=torch.float64)).softmax(-1)
    query = (
        torch.eye(5, dtype=torch.float64)[0] if seed == 0 else torch.rand(5, generator=generator, dtype=torch.float64).softmax(0)
    )
    capacities = with_residual(weights)
    network = networkx.DiGraph()
    for token in range(5):
        network.add_edge("source", (3, token), capacity=float(query[token]))
        for layer in range(3):
            for key in range(5):
                network.add_edge((layer + 1, token), (layer, key), capacity=float(capacities[layer, token, key]))
    expected = [networkx.maximum_flow_value(network, "source", (0, token)) for token in range(5)]
    assert max_flow(weights, query).tolist() == pytest.approx(expected, abs=1e-6)


def test_causal_rollout_and_flow_never_look_ahead(tmp_path):
    encoder = load_encoder(save_gpt2(tmp_path / "gpt2"))
    maps = encoder.attend([TEXTS[0]])
    weights = mean_heads(maps)[0]
    assert (rollout(weights).triu(1) == 0).all()
    third = torch.eye(len(maps.tokens[0]))[2]
    assert (max_flow(weights, third)[3:] == 0).all()


def test_rollout_in_a_batch_is_rollout_of_each_text(encoder):
    maps = encoder.attend(TEXTS, states=True)
    for weights in (mean_heads(maps), norm_weights(encoder, maps)):
        together = rollout(weights)
        for row, length in enumerate(maps.lengths.tolist()):
            assert torch.allclose(together[row, :, :length, :length], rollout(weights[row, :, :length, :length]))
            assert (together[row, :, length:] == 0).all() and (together[row, :, :, length:] == 0).all()


def test_query_weights(encoder):
    pieces = encoder.pieces(TEXTS)
    for query in ("mean", "first", "last"):
        weights = query_weights(pieces, query)
        assert torch.allclose(weights.sum(1), torch.ones(len(TEXTS))) and (weights[~pieces.mask] == 0).all()
    assert query_weights(pieces, "last").argmax(1).tolist() == (pieces.lengths - 1).tolist()
    with pytest.raises(AnalysisError, match="'middle'.*mean"):
        query_weights(pieces, "middle")


def test_blank_out_is_one_changed_token_at_a_time(encoder):
    pieces = encoder.pieces(TEXTS)
    importance = blank_out(encoder, pieces)
    assert torch.equal(importance.isnan(), pieces.special)
    assert torch.allclose(importance, blank_out(encoder, pieces, token_budget=1), equal_nan=True, atol=1e-12)
    one = encoder.pieces([TEXTS[1]])
    blank = encoder.tokenizer.mask_token_id if encoder.tokenizer.mask_token_id is not None else encoder.tokenizer.unk_token_id
    changed = one.ids.clone()
    changed[0, 3] = blank

    def output(ids):
        with torch.no_grad():
            return encoder.model(input_ids=ids).last_hidden_state[0].mean(0)

    assert importance[1, 3] == pytest.approx((output(changed) - output(one.ids)).norm().item())


def test_blank_out_with_a_readout_of_ones_own(encoder):
    pieces = encoder.pieces(TEXTS)
    last = blank_out(encoder, pieces, readout=lambda states, given: states[torch.arange(len(given)), given.lengths - 1])
    assert torch.allclose(last, blank_out(encoder, pieces, query="last"), equal_nan=True)
    assert torch.allclose(
        blank_out(encoder, pieces, readout=lambda states, given: states[:, 0, :1] * 0).nan_to_num(),
        torch.zeros(1, dtype=torch.float64),
    )


def test_agreement_table(encoder):
    frame = agreement_with_blank_out(encoder, [*TEXTS, "good"], query="last")
    assert list(frame.columns) == ["input", "layer", "method", "spearman"]
    assert len(frame) == 7 * 2 * 5 and frame["spearman"].abs().max() <= 1
    alone = agreement_with_blank_out(encoder, [TEXTS[4]], query="last")
    assert np.allclose(frame.query("input == 4")["spearman"], alone["spearman"], equal_nan=True)
    pd.testing.assert_frame_equal(
        frame.query("method != 'flow'").reset_index(drop=True),
        agreement_with_blank_out(encoder, [*TEXTS, "good"], query="last", flow=False),
    )
    if encoder.attend(TEXTS).causal:
        with pytest.raises(AnalysisError, match="query='last'"):
            agreement_with_blank_out(encoder, TEXTS, query="first")


def test_agreement_without_special_tokens_is_that_of_the_smaller_network(encoder):
    if encoder.attend(TEXTS).causal:
        pytest.skip("no special tokens")
    text = TEXTS[1]
    maps = encoder.attend([text])
    words = mean_heads(maps)[0, :, 1:-1, 1:-1]
    query = torch.full((words.shape[-1],), 1 / words.shape[-1], dtype=words.dtype)
    importance = blank_out(encoder, maps)[0, 1:-1]
    frame = agreement_with_blank_out(encoder, [text], special=False)
    shown = frame.set_index(["method", "layer"])["spearman"]
    rolled = query @ rollout(words)
    for layer in range(2):
        assert shown["rollout", layer] == pytest.approx(spearmanr(rolled[layer], importance).statistic)
        flowed = max_flow(with_residual(words, 0), query, layer=layer)
        assert shown["flow", layer] == pytest.approx(spearmanr(flowed, importance).statistic)
    with pytest.raises(AnalysisError, match="query='mean'"):
        agreement_with_blank_out(encoder, [text], special=False, query="first")


def test_agreement_with_a_readout_is_with_that_importance(encoder):
    def readout(states, pieces):
        return states[torch.arange(len(pieces)), pieces.lengths - 1, :1]

    frame = agreement_with_blank_out(encoder, [TEXTS[0]], query="last", readout=readout, flow=False)
    maps = encoder.attend([TEXTS[0]])
    importance = blank_out(encoder, maps, readout=readout)[0]
    keep = ~importance.isnan()
    expected = spearmanr(mean_heads(maps)[0, 0, -1][keep], importance[keep]).statistic
    assert frame.query("method == 'raw' and layer == 0")["spearman"].item() == pytest.approx(expected)


def test_blank_out_with_another_token(encoder):
    pieces = encoder.pieces([TEXTS[1]])
    same = blank_out(encoder, pieces, blank=int(pieces.ids[0, 3]))
    assert same[0, 3] < 1e-12 and (same[0, 1:3] > 1e-6).all()


def test_a_network_that_only_copies_makes_blank_out_and_rollout_agree(encoder):
    """With residual 1 only a token itself reaches its own state."""
    weights = mean_heads(encoder.attend([TEXTS[0]]))[0]
    size = weights.shape[-1]
    assert torch.allclose(rollout(weights, residual=1)[-1], torch.eye(size, dtype=torch.float64))
    only_second = torch.eye(size, dtype=torch.float64)[1]
    assert max_flow(weights, only_second, residual=1).tolist() == pytest.approx(only_second.tolist())
