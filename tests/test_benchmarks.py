"""The benchmark runs, and finds the same values on both sides."""

from benchmarks.run import compare


def test_a_small_run_compares_every_algorithm():
    section = compare("rotten_tomatoes", n_inputs=6, repeats=1)
    for name in ("encoder pass", "gradient", "leave-one-out", "100 permutations", "adversary"):
        assert f"| {name} |" in section
    assert "the published one is higher on 0 of 6 inputs" in section
    differences = [float(line.split("difference ")[1].split()[0]) for line in section.splitlines() if "largest difference" in line]
    assert len(differences) == 2 and max(differences) < 1e-4
