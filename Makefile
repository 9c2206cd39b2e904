.PHONY: run test check
.NOTPARALLEL:

run: ; @scripts/run
test: ; @scripts/test
check: ; @scripts/check
