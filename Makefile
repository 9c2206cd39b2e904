.PHONY: run build test quick check bench profile soak
.NOTPARALLEL:

run: ; @scripts/run
build: ; @scripts/build
test: ; @scripts/test $(ARGUMENTS)
quick: ; @scripts/quick $(TARGETS)
check: ; @scripts/check
bench: ; @scripts/bench
profile: ; @scripts/profile
soak: ; @scripts/soak
