"""The study of head roles on a handful of sentences."""

from course_utils.data import load
from course_utils.reproduce import heads


def test_a_sample_has_each_measure_of_each_relation():
    texts = [example.text for example in load("rotten_tomatoes").test[:24]]
    found = heads.measured(texts, 3, least=20).set_index(["measure", "group"])["value"]
    groups = set(found["role_best"].index)
    assert {"all", "det", "nsubj"} <= groups
    assert all(set(found[name].index) == groups for name in ("role_fixed", "role_untrained"))
    assert set(found["positional"].index) == {"of all tokens", "of other words"}
    assert found.between(0, 1).all()
    assert found["role_best", "det"] > found["role_untrained", "det"]
