"""What more than one folder of tests needs."""

import pytest


@pytest.fixture(scope="session")
def website(tmp_path_factory, worker_id):
    """The folder of the website's pages, built once for a run, however many workers share it."""
    from filelock import FileLock

    from tools import site

    base = tmp_path_factory.getbasetemp()
    target = (base if worker_id == "master" else base.parent) / "site"
    with FileLock(target.with_suffix(".lock")):
        if not target.exists():
            assert site.build(target) == 0, "Sphinx warned or failed; its output above says where"
    return target / "html"
