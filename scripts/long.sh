# shellcheck shell=bash
# The parts of `make nightly` and `make soak`; source it. Each part is a function that builds what it needs.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# Every unit test, with new seeds.
unit() { tested main; }

# `tested VARIANT [OPTION... [-- WORD...]]`: one lock from the files to the last test, as in scripts/test.
tested() {
    local variant=$1 options=()
    shift
    while [ $# -gt 0 ] && [ "$1" != -- ]; do options+=("$1") && shift; done
    [ $# -eq 0 ] || shift
    hold_tree
    build_tests "$variant" "${options[@]}"
    require_same_tree
    unit_tests "$variant" "$@"
}

# What measures time runs alone, with the release as users get it.
timing() {
    build_release
    acceptance_tests timing -m "timing and not soak"
}

# Instructions of a request, compared with Benchmarks/instructions.json. The second run shows that the comparison finds what it is for.
count() { scripts/count && scripts/count --prove --loads http1; }

# All other acceptance tests, with each side and each version of PostgreSQL, and the stateful test, on a release that checks its assertions
# and every access to memory. Without the profile, which such a program does not match. Tests of packages are left out, because it is
# not stripped, and tests of its footprint, because without the profile more pages of the program itself are resident.
assertions() {
    hold_tree
    in_scratch assertions build -c release --static-swift-stdlib -Xswiftc -enforce-exclusivity=checked \
        -Xswiftc -assert-config -Xswiftc Debug --product authgateway
    require_same_tree
    mkdir -p .build
    # A copy: the next build may make another one while the tests run.
    cp "$(scratch assertions)/release/authgateway" .build/authgateway-assertions
    release_tree
    AUTHGATEWAY_BINARY=$PWD/.build/authgateway-assertions \
        acceptance_tests assertions "${side_by_side[@]}" --ignore acceptance/install -m "not soak and not timing and not footprint"
}

# Fuzzers, with assertions.
fuzz() {
    hold_tree
    build_tests
    require_same_tree
    scripts/fuzz "${AUTHGATEWAY_LIBFUZZER_SECONDS:-60}"
}

# A folder of its own for each: a sanitizer changes every object file. The thread sanitizer would not see a contended Mutex.
thread() {
    mkdir -p .build
    clang -shared -fPIC -O1 -Wall -Werror -o .build/tsan-mutex.so scripts/sanitizers/tsan-mutex.c -ldl
    sanitized thread LD_PRELOAD="$root/.build/tsan-mutex.so"
}
address() { sanitized address ASAN_OPTIONS=detect_leaks=0; }
sanitized() {
    local sanitizer=$1
    shift
    AUTHGATEWAY_UNIT_SECONDS=5400 tested "$sanitizer" --sanitize="$sanitizer" -- env "$@"
}

# What takes minutes or hours each.
acceptance() {
    build_release
    run_pytest acceptance -m soak -s --timeout 3600 --durations=0
}

# A million heads beside llhttp.
heads() {
    hold_tree
    build_tests
    require_same_tree
    AUTHGATEWAY_HEADS=1000000 "$(scratch)/debug/AuthGatewayPackageTests.xctest" --testing-library swift-testing \
        --filter RequestHeadDifferenceTests
}

# Two release builds in two folders, which have to make the same bytes.
release() { scripts/dist --verify; }

# `run_parts NAME PART...` runs the parts that follow one another, each as a stage, and ends with the result of all.
run_parts() {
    local name=$1 part
    shift
    scripts/setup
    scripts/setup-tests
    for part in "$@"; do
        [ "$(type -t "$part")" = function ] || fail "there is no part $part; see scripts/long.sh"
        stage "$name: $part" "$part"
    done
    printf '%s\n' "${times[@]}"
    exit "$verdict"
}
