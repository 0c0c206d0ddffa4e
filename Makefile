# Every target does what it needs first: `make run` and `make test` work on a fresh machine.
#   PRESET  what `make run` trains            ARGS  further flags for it, e.g. ARGS="--seed 3"
#   JOBS    compilers at a time (default: by cores and memory)
#   CMAKE_ARGS  options of CMake: make build CMAKE_ARGS=-DSHOAL_WITH_ATARI=OFF
#   SHOAL_DEPS, SHOAL_TORCH_DIR: see scripts/setup.sh
#   SECONDS how long `make fuzz` runs each of its targets
PRESET = cartpole-ppo
ARGS =
SECONDS = 60
shoal = build/release/bin/shoal
folders = src plugins samplers algos runners cli python benchmarks tests examples
python_folders = python tests/python examples/python
sources = find include $(folders) -name '*.h' -o -name '*.cc' -o -name '*.cu'

# The linter of the virtual environment that `make test` fills, or the user's.
ruff = PATH="$${SHOAL_DEPS:-$$HOME/.cache/shoal}/venv-torch-2.11.0/bin:$$PATH" ruff

export JOBS

.DEFAULT_GOAL := build
.NOTPARALLEL:
.PHONY: setup build command python run test test-sanitized test-clang fuzz gpu-check docs format format-check tidy clean help

setup: ## install what is missing: packages, LibTorch, the Atari emulator, MuJoCo
	@scripts/setup.sh

build: setup ## build all of the release preset, tests and examples too; the command is build/release/bin/shoal
	@scripts/build.sh release

command: setup ## build the command and its plugins alone
	@scripts/build.sh release shoal_command

python: setup ## build the Python package and install it, with the command `shoal`, beside LibTorch
	@scripts/python.sh

# Classic control needs no plugin, and without a GPU the command needs none: a first run takes a minute less.
plain = $(if $(wildcard /dev/nvidiactl),,$(filter acrobot-% cartpole-% mountain-car-% pendulum-%,$(PRESET)))

run: setup ## train: make run PRESET=pong-ppo ARGS="--seed 3"
	@scripts/build.sh release $(if $(plain),shoal,shoal_command)
	@$(shoal) train $(PRESET) $(ARGS)

test: setup ## build and run every test
	@scripts/test.sh release

test-sanitized: setup ## run the tests of core, ipc and envs with TSan; these, replays and samplers with ASan and UBSan
	@scripts/test.sh tsan asan

test-clang: ## build the command and the ground layers with clang, and run their tests
	@scripts/setup.sh clang
	@scripts/test.sh clang

fuzz: ## give random input to every reader of files and peers, for SECONDS each: make fuzz SECONDS=1800
	@scripts/setup.sh clang libclang-rt-dev
	@scripts/fuzz.sh $(SECONDS)

gpu-check: ## everything that needs a GPU, in ten minutes, from build/cuda: gpu_check.md (ARGS="--minutes 5")
	@scripts/gpu_check.py $(ARGS)

format: ## format every source file in place
	@$(sources) | xargs clang-format -i
	@if $(ruff) --version >/dev/null 2>&1; then $(ruff) format --quiet $(python_folders); fi

format-check: ## fail if a source file is not formatted, or Python code not clean where ruff is installed
	@$(sources) | xargs clang-format --dry-run --Werror
	@if $(ruff) --version >/dev/null 2>&1; then \
	  $(ruff) format --quiet --diff $(python_folders) && $(ruff) check --quiet $(python_folders); fi

tidy: setup ## run clang-tidy on every source file (slow)
	@scripts/tidy.sh

docs: ## the guides and the API reference as one site, by Doxygen: build/docs/html/index.html
	@mkdir -p build/docs && docs/doxygen_filter.py --headers >build/docs/headers.md
	@doxygen docs/Doxyfile

clean: ## remove the build folder; LibTorch, the emulator and MuJoCo stay
	@rm -rf build

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-15s %s\n", $$1, $$2}' Makefile
