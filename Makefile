# What can be done with this checkout. `make test` is what CI runs.

.PHONY: build build-lab demo test test-nightly test-boards needs build-needs fmt clippy documentation unit-tests dependencies checks bench-tree bench-default bench-age bench-sealed bench-objects bench-threads bench-module bench-tls peers testbed bench-testbed bench-boards bench-processes install install-lab install-c install-tls deb rpm deb-boards check-packages fuzz

# Checks of the whole program, each a script that ends with a status; added to `make test`.
CHECKS := $(sort $(wildcard tests/check-*))
# The longest checks begin first. A module's speed beside the cores depends on the load, and so do the rates of Ray
# nodes, so those checks run alone.
LONGEST := $(addprefix tests/check-,boards tls c)
ALONE := $(addprefix tests/check-,testbed liar ray)

build: build-needs
	cargo build --locked --release

# The laboratory, and the program that it measures.
build-lab: build-needs
	cargo build --locked --release --package evener-cli --package evener-lab

demo: build-needs
	scripts/demo

# What can't be checked here is listed at the end, with the reason, and how long each step took.
STEPS := needs fmt clippy documentation checks
test: export EVENER_SKIPPED_LIST := $(CURDIR)/target/skipped
test: export EVENER_TIMES := $(CURDIR)/target/times
# Nothing is built twice: what the compiler keeps for a second build would double the 10 GB in target/.
test: export CARGO_INCREMENTAL := 0
test:
	mkdir -p target && : > "$$EVENER_SKIPPED_LIST" && : > "$$EVENER_TIMES"
	status=0; for step in $(STEPS); do \
		scripts/timed $$step $(MAKE) $$step || { status=$$?; break; }; \
	done; scripts/list-skipped; cat "$$EVENER_TIMES"; exit $$status

# A million random messages through every kernel, against OpenSSL and against the standard, and
# two hundred thousand batches through the GPU's. A hundred thousand damaged files of age, and two
# thousand that are exchanged with other programs. Runs that seal or care for a tree, each killed 500
# times, and 200 rounds of two writers. The Python package as users install it, and PyTorch's checkpoints.
# Jobs on Ray nodes that die, with 50 seeds, and on Spark. And the demo, as a new machine builds it.
test-nightly: needs
	EVENER_LANES_MESSAGES=1000000 cargo test --locked --release -p evener-lanes --tests
	EVENER_LANES_MESSAGES=1000000 cargo test --locked --release -p evener-engines --lib lanes::
	EVENER_GPU_BATCHES=200000 cargo test --locked --release -p evener-gpu --lib
	EVENER_AGE_DAMAGES=100000 cargo test --locked --release -p evener --test age_damage -- --nocapture
	EVENER_TEST_ROUNDS=500 cargo test --locked --release -p evener-place --test sealed_writers --test sealed_cleaning killed -- --nocapture
	EVENER_TEST_ROUNDS=200 cargo test --locked --release -p evener-place --test sealed_writers at_once -- --nocapture
	tests/object-stores/install
	EVENER_TEST_ROUNDS=200 cargo test --locked --release -p evener-cli --test stores_killed --test new_keys killed -- --nocapture
	tests/nightly/age-exchanges
	tests/check-python
	tests/nightly/python-torch
	tests/nightly/wheels
	tests/check-ray 50
	tests/nightly/spark-job
	tests/check-demo --cold

# Everything on the boards' processors, under emulation.
test-boards: needs
	tests/boards/run

needs:
	scripts/install-needs

# What building takes.
build-needs:
	scripts/install-needs build

fmt:
	cargo fmt --all --check

clippy: needs
	cargo clippy --locked --workspace --all-targets -- -D warnings

# The pages of the library crates that users read.
documentation: needs
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps --lib --package=evener \
		$(patsubst %,--package=evener-%,core lanes gpu gate engines pipeline format keys seal place object)

# Tests send SIGHUP and SIGQUIT, which a caller such as nohup may have had this ignore. One is of a build
# that lacks what is behind features.
unit-tests: needs
	tests/object-stores/install
	env --default-signal=HUP,QUIT cargo test --locked --workspace
	cargo test --locked -p evener-engines --no-default-features --lib without_gpu

dependencies: needs
	scripts/python-environment
	scripts/check-dependencies

checks: needs
	scripts/checks unit-tests $(LONGEST) dependencies $(filter-out $(LONGEST) $(ALONE),$(CHECKS))
	for check in $(ALONE); do scripts/checks $$check || exit; done

bench-tree: build-lab
	target/release/evener-lab bench tree --svg target/bench-tree.svg

# What the default is worth beside the choices that it is made of: for changes to policies.
bench-default: build-lab
	scripts/bench-default

# Files, trees and pipes of age beside age, rage, Cobblestone and cp.
bench-age: build
	scripts/bench-age

# Sealed trees beside plain ones and other programs that hide names, as far as these can be installed; about an
# hour.
bench-sealed: build
	-scripts/install-needs rivals
	scripts/bench-sealed

# Transfers to and from an object store beside rclone's; about ten minutes.
bench-objects: build
	tests/object-stores/install
	-scripts/install-needs rivals
	scripts/bench-objects --many 100000

bench-threads: build-lab
	target/release/evener-lab bench threads --svg target/bench-threads.svg

# Cores beside modules that open late, lag or hang; more than an hour.
bench-module: build-lab
	target/release/evener-lab bench module

# nginx with OpenSSL's own ciphers and with Evener's.
bench-tls: build-lab
	bindings/openssl/install target/tls
	target/release/evener-lab bench tls --provider target/tls/lib/evener/evener.so \
		--server-cores 0 --client-cores 1 --html target/bench-tls.html

# The programs that bench-threads runs beside Evener, with the system's OpenSSL.
peers:
	mkdir -p target/peers
	$(CC) -O3 -march=native -Wall -Wextra -fopenmp -o target/peers/ctr_openmp \
		peers/threads/ctr_openmp.c -lcrypto
	javac -d target/peers peers/threads/CtrThreads.java

# Every fuzzing target for so many seconds; it takes a nightly toolchain and cargo-fuzz.
SECONDS ?= 60
fuzz: needs
	scripts/fuzz $(SECONDS)

# The module engines' tests, in a virtual machine with a real crypto device.
testbed: needs
	testbed/test

# The papers' experiment there, and on a modelled board; the reports are in target/bench-testbed.
bench-testbed: needs
	testbed/bench

# The same on an emulated ARMv7 board.
bench-boards: needs
	testbed/bench-boards

# Many processes that want one engine there, with and without the gate; the reports go there too.
bench-processes: needs
	testbed/processes

# The program with its manual pages and completions, below DESTDIR and PREFIX.
PREFIX ?= /usr/local
install: build
	scripts/install "$(PREFIX)" target/release/evener

# The same for the benchmarks and the simulator.
install-lab: build-lab
	scripts/install "$(PREFIX)" target/release/evener-lab

# Packages for this machine's architecture, in target/packages.
deb rpm: build
	scripts/package $@

# For boards, ARMv7 and aarch64: packages and static programs. `make test-boards` installs and uses them.
deb-boards: needs
	set -e; for target in armv7-unknown-linux-gnueabihf aarch64-unknown-linux-gnu; do \
		scripts/package static $$target; scripts/package deb $$target; done

# The Debian package, installed and used in a Debian of its own; as root.
check-packages: deb
	scripts/check-packages

# The C library, below PREFIX.
install-c: build-needs
	bindings/c/install "$(PREFIX)"

# The provider for OpenSSL, below PREFIX.
install-tls: build-needs
	bindings/openssl/install "$(PREFIX)"
