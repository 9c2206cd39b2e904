.PHONY: run build test check bench profile soak
.NOTPARALLEL:

run: ; @scripts/run
build: ; @scripts/build
test: ; @scripts/test
check: ; @scripts/check
bench: ; @scripts/bench
profile: ; @scripts/profile
soak: ; @scripts/soak
