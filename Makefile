# Shortcuts for development. Each target sets up the checkout first.
.DEFAULT_GOAL := help
.PHONY: help dev test check fmt docs hooks
SETUP = ROOT="$(CURDIR)" && . deploy/setup.sh && setup_python demo dev suites
BIN = .venv/bin

help:  ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /make \1\t/p' Makefile

dev:  ## appliance, console and a software node; reload on changes
	@ROOT="$(CURDIR)" && . deploy/setup.sh && setup dev && exec $(BIN)/python -m deploy.dev

test:  ## quick tests, at most 5 minutes
	@./test

check:  ## the checks of CI: format, lint, types, imports, ...
	@.ci/check

fmt:  ## format Python, C++ and TypeScript
	@$(SETUP)
	@$(BIN)/ruff check --quiet --fix --select I . && $(BIN)/ruff format --quiet .
	@.ci/files '*.cc' '*.h' '*.c' '*.cu' | grep -v corpus | xargs $(BIN)/clang-format -i
	@cd frontend && PATH="$(CURDIR)/$(BIN):$$PATH" npm run --silent fmt

docs:  ## the documentation, strictly, in build/site
	@$(SETUP)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

hooks:  ## run the checks before each git commit
	@$(SETUP)
	@$(BIN)/pre-commit install --config .ci/pre-commit.yaml --hook-type pre-commit --hook-type commit-msg
