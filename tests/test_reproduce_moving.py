"""The study of moved attention on a tiny model."""

import tiny

from course_utils.analysis.moving import WAYS
from course_utils.reproduce import moving


def test_a_sample_has_each_measure_and_every_way(tmp_path):
    classifier = tiny.classifier(tmp_path / "bert")
    texts = tiny.TEXTS
    found = moving.measured(classifier, texts[:4], texts[2:], 3, layer=1, source=0, one=2, giver=(0, 1), taker=(1, 2))
    assert set(found["seed"]) == {3} and set(found["n"]) == {4} and found["value"].notna().all()
    values = found.set_index(["measure", "group"])["value"]
    assert set(values["relocated_change"].index) == {"moved", "giver even", "both removed"}
    assert set(values["moved_map_change"].index) == set(WAYS)
    assert set(values["moved_layer_change"].index) == {"1 texts", "4 texts"}
    assert values["relocated_change"].between(0, 1).all() and values["relocated_previous"].between(0, 1).all()
    assert values["relocated_previous", "giver before"] != values["relocated_previous", "giver after"]
