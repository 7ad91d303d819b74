# What a contributor runs; each recipe is one line.

# set up the virtual environment
setup:
    python3 -m venv .venv && .venv/bin/pip install -q -e '.[test]' -e './allreduce[test]'

# the quick tests
test *args:
    .venv/bin/python -m pytest -n logical --dist loadfile {{args}}

# style, types and the direction of imports
lint:
    .venv/bin/ruff check . && .venv/bin/ruff format --check . && .venv/bin/mypy && .venv/bin/lint-imports

# write the generated parts of the documentation anew
docs:
    .venv/bin/python docs/generate.py

# everything that runs before a change is taken
ci:
    .ci/run
