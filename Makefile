.PHONY: run test check bench
.NOTPARALLEL:

run: ; @scripts/run
test: ; @scripts/test
check: ; @scripts/check
bench: ; @scripts/bench
