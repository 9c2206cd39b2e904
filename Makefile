.PHONY: run build install dist test quick check schema nightly bench count profile soak
.NOTPARALLEL:

run: ; @scripts/run
build: ; @scripts/build
install: ; @PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' scripts/install
dist: ; @scripts/dist $(ARGUMENTS)
test: ; @scripts/test $(ARGUMENTS)
quick: ; @scripts/quick $(FILES)
check: ; @scripts/check
schema: ; @scripts/schema
bench: ; @scripts/bench
count: ; @scripts/count $(ARGUMENTS)
profile: ; @scripts/profile
nightly: ; @scripts/nightly $(PARTS)
soak: ; @scripts/soak $(PARTS)
