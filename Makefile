# The commands live in tools/course.py, which also runs without make. Each creates .venv when it is missing.
# make test TORCH_INDEX=     torch from the default index instead of its CPU index (Linux without an NVIDIA GPU)
# make test LOCK=            the newest versions instead of those in requirements.lock
PYTHON ?= python3

.PHONY: lab test run notebooks site lock

lab:        ## open the course in JupyterLab
test:       ## ruff, pytest, and every lesson executed and compared
run:        ## execute every lesson: one line each with seconds and peak memory (LESSONS="08" for some)
notebooks:  ## notebooks/src/*.py -> notebooks/*.ipynb, executed (LESSONS="08" for some)
site:       ## the website, in build/site/html
lock:       ## resolve requirements.lock anew

lab test run notebooks site lock:
	@$(PYTHON) tools/course.py $@ $(LESSONS)
