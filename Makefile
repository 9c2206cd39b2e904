.PHONY: run test check bench soak
.NOTPARALLEL:

run: ; @scripts/run
test: ; @scripts/test
check: ; @scripts/check
bench: ; @scripts/bench
soak: ; @scripts/soak
