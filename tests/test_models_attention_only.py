"""The attention-only model and its training: what a head can see, what taking it away changes, and what an interrupt leaves."""

import pytest
import torch

from course_utils.data.repeats import make_repeats
from course_utils.errors import DataError, ModelError
from course_utils.models import attention_only
from course_utils.models.attention_only import AttentionOnly, AttentionOnlyConfig, Cut, Training, next_token_loss

SMALL = AttentionOnlyConfig(vocabulary=7, length=12, width=8, heads=2)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="module")
def model():
    return AttentionOnly(SMALL).double()


@pytest.fixture(scope="module")
def ids():
    return make_repeats(5, 12, 7, periods=(2, 5), generator=generator()).ids


def test_sequences_repeat_their_block_and_say_where():
    made = make_repeats(200, 20, 50, periods=(3, 8), generator=generator())
    assert made.period.min() == 3 and made.period.max() == 8 and len(made) == 200
    for row, period in zip(made.ids, made.period.tolist(), strict=True):
        assert torch.equal(row[period:], row[:-period])
    assert made.seen.sum(1).tolist() == [20 - period for period in made.period.tolist()]
    assert not made.seen[:, :3].any() and made.seen[:, 8:].all()
    assert torch.bincount(made.ids.flatten(), minlength=50).min() > 0
    again = make_repeats(200, 20, 50, periods=(3, 8), generator=generator())
    assert torch.equal(made.ids, again.ids)
    assert torch.equal(made.to("cpu").period, made.period)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"periods": (2, 12)}, "a block of 12 tokens is never repeated in a sequence of 12"),
        ({"periods": (5, 3)}, r"periods=\(5, 3\)"),
        ({"periods": (0, 3)}, "1 <= shortest"),
        ({"vocabulary": 1}, "vocabulary of 1 leaves nothing to predict"),
        ({"n": 0}, "n=0 sequences"),
        ({"length": 1}, "length 1"),
    ],
)
def test_sequences_that_cannot_be_are_refused(arguments, message):
    with pytest.raises(DataError, match=message):
        make_repeats(**({"n": 3, "length": 12, "vocabulary": 7, "periods": (2, 4)} | arguments), generator=generator())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"vocabulary": 1}, "vocabulary of 1"),
        ({"width": 10, "heads": 4}, "4 heads do not divide a width of 10"),
        ({"layers": 0}, "1 or more"),
    ],
)
def test_models_that_cannot_be_are_refused(arguments, message):
    with pytest.raises(ModelError, match=message):
        AttentionOnlyConfig(**arguments)


def test_no_query_sees_a_later_token(model, ids):
    logits, attention = model(ids)
    assert logits.shape == (5, 12, 7) and attention.shape == (5, 2, 2, 12, 12)
    assert attention.triu(1).abs().max() == 0
    torch.testing.assert_close(attention.sum(-1), torch.ones_like(attention[..., 0]))
    changed = ids.clone()
    changed[:, 8:] = (changed[:, 8:] + 1) % 7
    torch.testing.assert_close(model(changed)[0][:, :8], logits[:, :8])
    assert (model(changed)[0][:, 8:] - logits[:, 8:]).abs().max() > 1e-3
    torch.testing.assert_close(model(ids[:, :6])[0], logits[:, :6])


def test_the_maps_are_the_models_and_are_named_by_token_numbers(model, ids):
    made = make_repeats(5, 12, 7, periods=(2, 5), generator=generator())
    maps = model.attend(made)
    torch.testing.assert_close(maps.attention, model(ids)[1])
    assert maps.causal and maps.tokens[0] == tuple(str(number) for number in made.ids[0].tolist())


def test_gates_of_one_change_nothing_and_of_zero_remove_the_head(model, ids):
    logits, attention = model(ids)
    assert torch.equal(model(ids, gates=torch.ones(2, 2))[0], logits)
    gates = torch.ones(2, 2)
    gates[0, 1] = 0
    removed, maps = model(ids, gates=gates)
    silent = AttentionOnly(SMALL).double().load(model.state_dict())
    with torch.no_grad():
        silent.output[0, 4:] = 0  # the rows that head 1 writes with
    torch.testing.assert_close(removed, silent(ids)[0])
    torch.testing.assert_close(maps[:, 0], attention[:, 0])
    assert (maps[:, 1] - attention[:, 1]).abs().max() > 1e-3


def test_a_cut_hides_a_head_from_one_reader_only(model, ids):
    logits, attention = model(ids)
    gates = torch.ones(2, 2)
    gates[0, 1] = 0
    nothing_read = model(ids, gates=gates)[1]
    for part in ("query", "key"):
        cut_logits, maps = model(ids, cut=Cut(0, 1, part))
        torch.testing.assert_close(maps[:, 0], attention[:, 0])
        assert (maps[:, 1] - attention[:, 1]).abs().max() > 1e-4
        assert (maps[:, 1] - nothing_read[:, 1]).abs().max() > 1e-4
        assert (cut_logits - logits).abs().max() > 1e-4
    cut_logits, maps = model(ids, cut=Cut(0, 1, "value"))
    torch.testing.assert_close(maps, attention)  # values do not decide where a head looks
    assert (cut_logits - logits).abs().max() > 1e-4
    torch.testing.assert_close(model(ids, cut=Cut(1, 0, "key"))[0], logits)  # nothing reads the last layer


def test_wrong_gates_cuts_lengths_and_checkpoints_are_refused(model, ids):
    with pytest.raises(ModelError, match=r"gates have shape \(3, 2\)"):
        model(ids, gates=torch.ones(3, 2))
    for cut in (Cut(0, 2, "key"), Cut(2, 0, "key"), Cut(0, 0, "keys")):
        with pytest.raises(ModelError, match="names no head or part"):
            model(ids, cut=cut)
    with pytest.raises(ModelError, match="sequences of 13 tokens; this model takes at most 12"):
        model(torch.zeros(1, 13, dtype=torch.int64))
    with pytest.raises(ModelError, match="another architecture: .*query.*instead of"):
        model.load(AttentionOnly(AttentionOnlyConfig(vocabulary=7, length=12, width=8, heads=2, layers=1)).state_dict())
    with pytest.raises(ModelError, match="another architecture: heads 4 instead of 2"):
        model.load(AttentionOnly(AttentionOnlyConfig(vocabulary=7, length=12, width=8, heads=4)).state_dict())
    with pytest.raises(ModelError, match="position missing instead of"):
        model.load({name: one for name, one in model.state_dict().items() if name != "position"})


def test_the_loss_is_the_next_tokens_cross_entropy():
    ids = torch.tensor([[0, 2, 1]])
    logits = torch.tensor([[[0.0, 0.0, 0.0], [0.0, 3.0, 0.0], [9.0, 9.0, 9.0]]])
    expected = [[torch.log(torch.tensor(3.0)), -torch.log_softmax(torch.tensor([0.0, 3.0, 0.0]), 0)[1]]]
    torch.testing.assert_close(next_token_loss(logits, ids), torch.tensor(expected))


def test_a_block_of_one_token_is_learnt_in_few_steps():
    training = Training(SMALL, periods=(1, 1), every=20, batch=16, learning_rate=1e-2).run(60, progress=False)
    assert training.losses[0] > 1.5  # about log 7
    assert training.losses[-1] < 0.1
    one_token = make_repeats(4, 12, 7, periods=(1, 1), generator=generator(9))
    logits, _ = training.model()(one_token.ids)
    assert torch.equal(logits.argmax(-1), one_token.ids)


def test_in_pieces_or_at_once_a_training_is_the_same():
    at_once = Training(SMALL, periods=(2, 5), every=5, batch=4).run(20, progress=False)
    pieces = Training(SMALL, periods=(2, 5), every=5, batch=4)
    for until in (5, 15, 15, 20):
        pieces.run(until, progress=False)
    assert list(pieces.checkpoints) == [0, 5, 10, 15, 20] and pieces.losses == at_once.losses and len(pieces.losses) == 20
    for name, weights in at_once.checkpoints[20].items():
        assert torch.equal(weights, pieces.checkpoints[20][name])
    other = Training(SMALL, periods=(2, 5), every=5, batch=4, seed=1).run(20, progress=False)
    assert other.losses != at_once.losses


def test_an_interrupt_keeps_the_checkpoints_and_the_next_call_goes_on(monkeypatch, capsys):
    whole = Training(SMALL, periods=(2, 5), every=5, batch=4).run(20, progress=False)
    training = Training(SMALL, periods=(2, 5), every=5, batch=4)
    real, calls = attention_only.make_repeats, []

    def stop(*arguments, **named):
        calls.append(1)
        if len(calls) == 13:
            raise KeyboardInterrupt
        return real(*arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(attention_only, "make_repeats", stop)
        training.run(20, progress=False)
    assert training.interrupted and "kept 3 checkpoints, the last after 10 steps" in capsys.readouterr().out
    assert list(training.checkpoints) == [0, 5, 10] and training.losses == whole.losses[:10] and training.steps == 10
    training.run(20, progress=False)
    assert not training.interrupted and training.losses == whole.losses
    torch.testing.assert_close(training.model(20).unembed, whole.model().unembed, rtol=0, atol=0)


def test_wrong_trainings_are_refused():
    with pytest.raises(ModelError, match="every=0 and batch=4"):
        Training(SMALL, every=0, batch=4)
    with pytest.raises(ModelError, match="learning_rate=-1"):
        Training(SMALL, learning_rate=-1)
    training = Training(SMALL, every=5)
    with pytest.raises(ModelError, match="until=7 is no multiple of every=5"):
        training.run(7)
    with pytest.raises(ModelError, match="there is no checkpoint of step 5; there are 0"):
        training.model(5)
    with pytest.raises(DataError, match="never repeated"):
        training.run(5, progress=False)  # the default blocks are longer than 12 tokens
