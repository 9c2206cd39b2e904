# shellcheck shell=bash
# Shared by the scripts in this folder; source it, do not run it.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cd "$root"

say() { printf '==> %s\n' "$*"; }
fail() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

# The newest language and standard library features that the code uses came with 6.2.
require_swift() {
    command -v swift >/dev/null 2>&1 ||
        fail "no swift on the PATH. Install Swift 6.3 from https://www.swift.org/install/ and run this again."
    local version major minor
    version=$(swift --version 2>/dev/null | sed -n 's/.*Swift version \([0-9][0-9]*\.[0-9][0-9]*\).*/\1/p' | head -n 1)
    major=${version%%.*}
    minor=${version#*.}
    if [ -z "$version" ] || [ "$major" -lt 6 ] || { [ "$major" -eq 6 ] && [ "$minor" -lt 2 ]; }; then
        fail "found Swift ${version:-of an unknown version}, need 6.2 or newer. Get it from https://www.swift.org/install/"
    fi
}

# Runs a command with the rights to install packages, and says that it does.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null 2>&1; then
        say "needs root: sudo $*"
        sudo "$@"
    else
        fail "this needs root and there is no sudo; run as root: $*"
    fi
}

is_installed() { dpkg-query -W -f='${db:Status-Abbrev}' "$1" 2>/dev/null | grep -q '^ii'; }

# Installs those of the named Debian packages that are missing; touches nothing, the network included, when none is.
require_packages() {
    local missing=() package
    for package in "$@"; do
        is_installed "$package" || missing+=("$package")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    say "installing ${missing[*]} (Debian packages)"
    install_packages "${missing[@]}" || {
        as_root apt-get update -qq
        install_packages "${missing[@]}"
    } || fail "could not install ${missing[*]}; is the network there? By hand: apt-get install ${missing[*]}"
}

install_packages() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"
}

# What stays between runs, outside of the checkout: compiled packages, the Python environment, unpacked servers, the corpus of
# requests. Never a result of a test. AUTHGATEWAY_CACHE names another folder. What is in it is run, so it must be the user's own.
cache=${AUTHGATEWAY_CACHE:-${XDG_CACHE_HOME:-${HOME:-$root/.build}/.cache}/authgateway}
cache_mark=CACHEDIR.TAG

# Makes the folder, or refuses one that holds something else or that others may write.
claim_cache() {
    [[ $cache = /* ]] || fail "AUTHGATEWAY_CACHE has to be an absolute path, not $cache"
    mkdir -p "${cache%/*}"
    [ -d "$cache" ] || mkdir -m 700 "$cache"
    if [ ! -e "$cache/$cache_mark" ]; then
        [ -z "${AUTHGATEWAY_CACHE:-}" ] || [ -z "$(ls -A "$cache")" ] ||
            fail "$cache is not empty and not this project's cache; name another folder in AUTHGATEWAY_CACHE"
        printf 'Signature: 8a477f597d28d172789f06886806bc55\n# The cache of authgateway builds and tests.\n' >"$cache/$cache_mark"
    fi
    [ -O "$cache" ] || fail "$cache belongs to another user; name another folder in AUTHGATEWAY_CACHE"
    [ -z "$(find "$cache" -maxdepth 0 \( -perm -020 -o -perm -002 \))" ] || fail "others may write $cache: chmod go-w $cache"
}

# Compiled objects stay, too: builds read `tree`, a copy of the checkout whose files keep their times as long as their bytes stay, so
# another checkout compiles what differs and nothing else. `start_from_nothing` moves both into the checkout.
objects=${AUTHGATEWAY_OBJECTS:-$cache}
tree=$objects/tree

# Uses no object of an earlier run. The folder is inside the checkout, whose builds it does not share.
start_from_nothing() {
    objects=$root/.build/fresh
    tree=$objects/tree
    # Whoever called this script has done so already.
    [ "${AUTHGATEWAY_OBJECTS:-}" != "$objects" ] || return 0
    export AUTHGATEWAY_OBJECTS=$objects
    mkdir -p "$root/.build"
    exec 7>"$root/.build/fresh.lock"
    flock --nonblock 7 || fail "another run builds from nothing in $root"
    rm -rf "$objects"
}

# Public test data beside the checkout. Unit tests run in the tree, which has nothing beside it.
if [ -z "${AUTHGATEWAY_VECTORS:-}" ] && [ -d "$root/../shared/vectors" ]; then
    export AUTHGATEWAY_VECTORS=$root/../shared/vectors
fi

for tool in python3 flock; do
    command -v "$tool" >/dev/null 2>&1 || fail "$tool is not installed"
done

# With --no-cache as its first argument, a script uses nothing at all of an earlier run: downloads are made anew, too.
if [ "${1:-}" = --no-cache ]; then
    shift
    export AUTHGATEWAY_CACHE=$root/.build/cache
    cache=$AUTHGATEWAY_CACHE
    rm -rf "$cache"
    start_from_nothing
fi
claim_cache

digest() { (sha256sum 2>/dev/null || shasum -a 256) | cut -c 1-16; }

# Prints the scratch folder of the builds: one for each toolchain, set of packages and variant (the compiler's flags by name).
scratch() {
    local variant=${1:-main} packages folder
    packages=$(grep -E '\.package\(|swift-tools-version' Package.swift)
    folder=$objects/build/$(printf '%s\n%s\n' "$(swift --version 2>/dev/null)" "$packages" | digest)-$variant
    if [ "$variant" = dist ]; then
        # The compiler writes the lengths of some paths into the program, if not the paths: docs/internals/adr/0037.
        [ ${#folder} -le 120 ] || fail "the path $folder is too long for a release; check the sources out into a folder with a shorter path"
        while [ ${#folder} -lt 120 ]; do folder+=-; done
    fi
    printf '%s\n' "$folder"
}

# `with_tree COMMAND...` runs a command while the tree holds the files of this checkout: nothing of another one is built or tested.
# A script that calls `hold_tree` keeps it for all that follows.
with_tree() {
    if [ "${AUTHGATEWAY_TREE:-}" = "$tree" ]; then
        "$@"
        return
    fi
    (
        hold_tree
        "$@"
    )
}

hold_tree() {
    [ "${AUTHGATEWAY_TREE:-}" != "$tree" ] || return 0
    mkdir -p "$objects" && chmod 700 "$objects"
    exec 8>"$objects/tree.lock"
    if ! flock --nonblock 8; then
        say "waiting for $objects/tree.lock, which another build or its unit tests hold" >&2
        flock --timeout 7200 8 || fail "$objects/tree.lock was held for two hours; \`fuser $objects/tree.lock\` names who holds it"
    fi
    python3 scripts/sync_tree.py update "$root" "$tree" >&2 || fail "the sources could not be copied into $tree"
    export AUTHGATEWAY_TREE=$tree
}

# Releases the lock. Background processes inherited it, so other checkouts also wait for those.
release_tree() {
    exec 8>&-
    unset AUTHGATEWAY_TREE
}

# Fails if the checkout has changed since the tree took its files, so that no test judges other files than the ones at hand.
require_same_tree() { python3 scripts/sync_tree.py compare "$root" "$tree"; }

# `in_scratch VARIANT build|test|package ARGUMENTS...` runs swift on the tree, in the scratch folder of that variant.
in_scratch() {
    local folder command=$2
    folder=$(scratch "$1")
    shift 2
    mkdir -p "$folder"
    with_tree swift_on_tree "$folder" "$command" --scratch-path "$folder" "$@"
}

# A build that is killed leaves objects that are newer than the compiler's record of what they were made from, and the next build
# would keep them, whatever the sources say by then. Without what the compiler noted of them a target is compiled as a whole.
forget_unfinished() {
    local record
    for record in "$1"/*/debug/*.build/primary.priors; do
        [ -e "$record" ] || continue
        [ -n "$(find "${record%/*}" -name '*.o' ! -name '*.swiftmodule.o' -newer "$record" -print -quit)" ] || continue
        say "the last build of $(basename "${record%/*}" .build) was interrupted: compiling all of it" >&2
        rm -f "$record" "${record%/*}"/*.swiftdeps "${record%/*}"/*.o
    done
}

# The versions that it resolved go into the checkout, where the bill of materials of a release looks for them.
swift_on_tree() {
    local folder=$1 command=$2
    shift 2
    forget_unfinished "$folder"
    swift "$command" --package-path "$tree" "$@" || return
    [ ! -e "$tree/Package.resolved" ] || cp "$tree/Package.resolved" Package.resolved
}

# Builds the gateway, or another product as it is built, and lays it into .build/release: the program, and beside it its symbols.
# `build_release PRODUCT dist` does it in the folder for releases.
build_release() { with_tree lay_release "$@"; }
lay_release() {
    local product=${1:-authgateway} variant=${2:-main} profile built
    say "building the release of $product (the first time takes some minutes)"
    profile=$(release_profile "$variant")
    optimized_release "$variant" "$profile" --product "$product"
    built=$(scratch "$variant")/release/$product
    if [ "$product" = authgateway ]; then
        # In a copy: the build system would link a product anew that another has changed.
        mkdir -p .build/release
        stamp_release "$built" .build/release/stamped "${profile:+profile}"
        built=.build/release/stamped
    fi
    # The program is what these files make.
    require_same_tree
    strip_release "$built" ".build/release/$product"
    rm -f .build/release/stamped
    printf '%s/checkouts\n' "$(scratch "$variant")" >.build/release/checkouts
    [ "$product" != authgateway ] || size_step
}

# The same program without the profile, to tell what that gains (docs/internals/performance.md); in the scratch folder `plain`.
plain_release() { optimized_release plain "" --product authgateway; }

# `optimized_release VARIANT PROFILE OPTIONS...`
optimized_release() {
    local variant=$1 profile=$2 order flags=()
    shift 2
    # The compiler would keep the code of an earlier build where only the profile has changed. It names the functions whose
    # counts it uses.
    [ -z "$profile" ] ||
        flags+=(-Xswiftc -Xfrontend -Xswiftc "-ir-profile-use=$profile" -Xswiftc -Xfrontend -Xswiftc -disable-incremental-llvm-codegen
            -Xswiftc -Xllvm -Xswiftc -pgo-view-counts=text)
    order=$(release_order)
    [ -z "$order" ] ||
        flags+=(-Xswiftc -Xfrontend -Xswiftc -function-sections -Xswiftc -use-ld=lld
            -Xlinker "--symbol-ordering-file=$order" -Xlinker --no-warn-symbol-ordering
            # Nothing looks for the program's functions by name, and its own addresses need no entry each.
            -Xlinker --no-export-dynamic -Xlinker -z -Xlinker pack-relative-relocs)
    if [ -z "$profile" ]; then
        release_build "$variant" "$@" "${flags[@]}"
        return
    fi
    local log
    log=$(mktemp)
    release_build "$variant" "$@" "${flags[@]}" 2>&1 | tee "$log" |
        sed -uE '/^(pgo-view-counts|block-frequency-info): |^ - .*: float = |^$/d' || {
        rm -f "$log"
        fail "the release could not be built"
    }
    profile_match record "$variant" <"$log"
    profile_match report "$variant"
    rm -f "$log"
}

# `profile_match record|report VARIANT`: how many records of the profile the last release build used; docs/internals/adr/0021.
profile_match() {
    python3 Benchmarks/profile_match.py "$1" Benchmarks/release.proftext Sources "$(scratch "$2")/profile-match.json"
}

# `strip_release BUILT PROGRAM`: the symbols, for reports of crashes, go to PROGRAM.debug, where debuggers look for them.
strip_release() {
    local built=$1 program=$2 tool
    tool=$(toolchain_folder)/llvm-objcopy
    mkdir -p "${program%/*}"
    if [ ! -x "$tool" ]; then
        cp "$built" "$program.new"
    else
        "$tool" --only-keep-debug --compress-debug-sections "$built" "$program.debug"
        "$tool" --strip-all "$built" "$program.new"
        identify "$tool" "$program.new" "$program.debug"
        (cd "${program%/*}" && "$tool" --add-gnu-debuglink="${program##*/}.debug" "${program##*/}.new")
    fi
    # A program that runs may not be written to, but another one may take its name.
    mv -f "$program.new" "$program"
    [ "$(uname)" = Linux ] && [ -x "$tool" ] && [ "${program##*/}" = authgateway ] || return 0
    local bytes
    bytes=$(wc -c <"$program")
    printf '%s\n' "$bytes" >"$objects/build/program-size"
    [ "$bytes" -lt 80000000 ] || fail "$program has $((bytes / 1000000)) MB, which is a fault: is the data of ICU in it again? See docs/internals/adr/0027"
}

# Prints how much the last build of the program has grown since the last release, where that is more than 2 %.
size_step() {
    local release released built
    read -r release released <packaging/size
    built=$(cat "$objects/build/program-size" 2>/dev/null) || return 0
    [ "$((built * 100))" -le "$((released * 102))" ] ||
        say "the program has $built bytes, $(((built - released) * 100 / released)) % more than the $released of $release"
}

# `identify TOOL PROGRAM SYMBOLS` gives both the same build ID, which follows from what the program does alone. That of the linker
# also follows from the symbols, and so from more than a user gets.
identify() {
    local tool=$1 program=$2 symbols=$3 note
    note=$(mktemp)
    "$tool" --dump-section ".note.gnu.build-id=$note" "$program" 2>/dev/null || return 0
    local head size
    # A note begins with three numbers and its name, GNU.
    size=$(wc -c <"$note")
    head=$(od -An -v -tx1 -N 16 "$note" | tr -d ' \n')
    [ "$size" -eq 36 ] || fail "the build ID of $program has $((size - 16)) bytes, not 20"
    bytes "$head" >"$note"
    truncate -s 36 "$note"
    "$tool" --update-section ".note.gnu.build-id=$note" "$program"
    bytes "$head$(sha1sum "$program" | cut -c 1-40)" >"$note"
    "$tool" --update-section ".note.gnu.build-id=$note" "$program"
    "$tool" --update-section ".note.gnu.build-id=$note" "$symbols"
    rm -f "$note"
}

# Prints the bytes of a string of hexadecimal digits.
bytes() { python3 -c 'import sys; sys.stdout.buffer.write(bytes.fromhex(sys.argv[1]))' "$1"; }

# `stamp_release BUILT COPY [profile]` copies the program and writes what `authgateway version --json` prints into the copy: commit,
# date, toolchain.
stamp_release() {
    local built=$1 copy=$2 profile=false tool record commit seconds target
    tool=$(toolchain_folder)/llvm-objcopy
    if [ "$(uname)" != Linux ] || [ ! -x "$tool" ]; then
        cp "$built" "$copy"
        return
    fi
    [ -z "${3:-}" ] || profile=true
    read -r commit seconds <<<"$(source_commit)"
    target=$(swiftc -print-target-info | sed -n 's/.*"unversionedTriple": "\(.*\)".*/\1/p')
    record=$(mktemp)
    # Without a commit, which no archive of the sources lacks, the record says nothing of one.
    printf '{%s"toolchain":"%s","target":"%s","profile":%s}' \
        "${commit:+"\"commit\":\"$commit\",\"commit_date\":\"$(utc "$seconds")\","}" "$(toolchain_name)" "$target" "$profile" >"$record"
    [ "$(wc -c <"$record")" -lt 1024 ] || fail "the record of the build is too long for its place in the program"
    truncate -s 1024 "$record"
    "$tool" --update-section ".authgateway_build=$record" "$built" "$copy"
    rm -f "$record"
}

# Prints the commit of the sources and its time in seconds: from git, or from what `git archive` wrote into packaging/commit. A commit
# whose files were changed has `-modified` behind it. Prints nothing where neither is there.
source_commit() {
    local commit seconds
    if [ "$(git rev-parse --show-toplevel 2>/dev/null)" = "$root" ]; then
        commit=$(git rev-parse HEAD)
        [ -z "$(git status --porcelain --untracked-files=no)" ] || commit+=-modified
        printf '%s %s\n' "$commit" "$(git show -s --format=%ct HEAD)"
    else
        read -r commit seconds <packaging/commit
        [[ $commit = \$* ]] || printf '%s %s\n' "$commit" "$seconds"
    fi
}

# Prints the time of the commit, which is that of everything in a release.
source_seconds() {
    local seconds
    seconds=$(source_commit)
    [ -n "$seconds" ] || fail "no commit is known: neither git nor packaging/commit names one"
    echo "${seconds#* }"
}

# Prints where the sources of the packages are. The build leaves word of it for `sudo make install`, which has another cache.
checkouts() { cat .build/release/checkouts 2>/dev/null || printf '%s/checkouts\n' "$(scratch)"; }

# `release_flags PROFILE` prints the words that build the release, one a line, without the folders of this machine.
release_flags() {
    (
        in_scratch() {
            shift
            printf '%s\n' "$@"
        }
        profile_match() { :; }
        optimized_release dist "$1" --product authgateway
    ) | sed -E "s#$(scratch dist)#<build>#g; s#$tree#<sources>#g; s#$objects#<cache>#g; s#/release-[0-9-]+\.#/release.#"
}

utc() { date -u -d "@$1" +%Y-%m-%dT%H:%M:%SZ; }

toolchain_name() { swift --version 2>/dev/null | sed -n 's/.*(\(swift-[^)]*\)).*/\1/p' | head -n 1; }

# `attempt COMMAND...` runs it in a subshell that ends at the first step that fails, and sets `status`. To be called as a
# statement: as a condition, bash would go on after such a step.
attempt() {
    set +e
    (
        set -e
        "$@"
    )
    status=$?
    set -e
}

# `stage NAME COMMAND...` attempts a command, and keeps its time in `times`. One that fails sets `verdict` to 1.
# shellcheck disable=SC2034 # The scripts end with it.
verdict=0
times=()
stage() {
    local name=$1 started=$SECONDS result=passed
    shift
    say "$name"
    attempt "$@"
    if [ "$status" -ne 0 ]; then
        result=FAILED
        verdict=1
    fi
    times+=("$(printf '%6d s  %s: %s' $((SECONDS - started)) "$name" "$result")")
    say "$name: $result in $((SECONDS - started)) s"
}

# `background_stage NAME COMMAND...` attempts a command beside the stages that follow; `background_result` waits for it, prints what it
# wrote and takes its result as `stage` does.
background_stage() {
    background=$1
    shift
    say "$background: running beside the next stages"
    background_started=$SECONDS
    mkdir -p .build
    background_log=$(mktemp -p "$root/.build")
    # In a process group of its own, so that it can be stopped with all that it starts.
    set -m
    (
        attempt "$@"
        echo "$((SECONDS - background_started)) $status" >"$background_log.result"
    ) >"$background_log" 2>&1 &
    background_process=$!
    set +m
}

# For a run that ends early.
end_background() { [ -z "${background:-}" ] || kill -- "-$background_process" 2>/dev/null || true; }

background_result() {
    local seconds result=passed
    [ -n "${background:-}" ] || return 0
    wait "$background_process" || true
    cat "$background_log"
    read -r seconds status <"$background_log.result" || status=1
    rm -f "$background_log" "$background_log.result"
    if [ "$status" -ne 0 ]; then
        result=FAILED
        # shellcheck disable=SC2034 # The scripts end with it.
        verdict=1
    fi
    times+=("$(printf '%6d s  %s: %s' "${seconds:-0}" "$background" "$result")")
    say "$background: $result in ${seconds:-?} s"
    background=
}

# As `stage`, for one that the following ones need.
required_stage() {
    stage "$@"
    if [ "$status" -ne 0 ]; then
        background_result
        exit 1
    fi
}

# All tests and the benchmarks, in one plan for all scripts: another plan would compile the packages once more. Lines are all that
# a backtrace needs, and no editor reads an index from here. `build_tests VARIANT OPTIONS...` makes other objects in a folder of their own.
build_tests() {
    local variant=${1:-main} flags=(--build-tests --disable-index-store -Xswiftc -gline-tables-only)
    shift || true
    [ ! -x "$(toolchain_folder)/ld.lld" ] || [ "$(uname)" != Linux ] || flags+=(-Xswiftc -use-ld=lld)
    AUTHGATEWAY_BENCHMARKS=1 in_scratch "$variant" build "${flags[@]}" "$@"
}

# These slow suites run in the second process, all others in the first.
second_half='^(GatewayTokensTests|GatewayAppTests|GatewayToolsTests)\.'

# `unit_tests [VARIANT [WORD...]]` runs the unit tests of a debug build in two processes, one test after the other in each: those that
# compute take longer side by side, and some measure time. All suites are Swift Testing's. The words stand before the program.
unit_tests() {
    local variant=${1:-main} reports=.build/reports first second failed=0
    shift || true
    mkdir -p "$reports"
    unit_process "$variant" "$reports/unit-1" --skip "$second_half" -- "$@" &
    first=$!
    unit_process "$variant" "$reports/unit-2" --filter "$second_half" -- "$@" &
    second=$!
    wait "$first" || failed=1
    wait "$second" || failed=1
    python3 scripts/reach.py remember "$cache" "$reports"/unit-[12].xml || failed=1
    collect_expected
    return "$failed"
}

# Tests that write what they expect (UPDATE_EXPECTED=1) wrote it into the tree.
collect_expected() { [ -z "${UPDATE_EXPECTED:-}" ] || python3 scripts/sync_tree.py collect "$root" "$tree"; }

# `unit_process VARIANT REPORT OPTIONS... -- [WORD...]`. What passes is only worth a line per suite. It fails if fewer tests than
# `at_least` ran, which is one if the caller does not say.
unit_process() {
    local variant=$1 report=$2 options=() program passed=0
    shift 2
    while [ "$1" != -- ]; do options+=("$1") && shift; done
    shift
    mkdir -p "${report%/*}"
    program=$(scratch "$variant")/debug/AuthGatewayPackageTests.xctest
    # From the tree, whose files are the ones that were compiled.
    # The lock stays with this shell: a process that outlives its test must not keep it.
    (cd "$tree" && timeout --foreground "${AUTHGATEWAY_UNIT_SECONDS:-1200}" "$@" "$program" --testing-library swift-testing --no-parallel \
        --xunit-output "$root/$report.xml" "${options[@]}" 8>&-) >"$report.log" 2>&1 || passed=$?
    grep -vE '^(◇|↳|.* Test (case )?.* (passed after|passing|started))' "$report.log" || true
    [ "$passed" -eq 0 ] || say "the unit tests ended with $passed: $report.log"
    [ "$(sed -nE 's/.*Test run with ([0-9]+) tests? .*passed.*/\1/p' "$report.log")" -ge "${at_least:-1}" ] 2>/dev/null || passed=1
    if [ "${CI:-}" = true ] && grep -E '^[^A-Za-z0-9]+ (Test|Suite) .* skipped' "$report.log"; then
        say "the tests above were skipped, which CI does not expect"
        passed=1
    fi
    return "$passed"
}

# What pytest makes of a test module costs more than all imports: the workers take it from the files of the first one.
unset PYTHONDONTWRITEBYTECODE

# Reads every module of acceptance tests once, so that no worker has to.
read_acceptance_tests() { run_pytest acceptance --collect-only --quiet >/dev/null; }

# `run_pytest OPTIONS...` runs acceptance tests with the release, or with the program that AUTHGATEWAY_BINARY names.
run_pytest() { "$(python_environment)/bin/python" -m pytest -o cache_dir="$PWD/.build/pytest" "$@"; }

# `acceptance_tests NAME OPTIONS... [-- PATH...]` does so and may forgive a failure: scripts/acceptance.py.
acceptance_tests() {
    local name=$1
    shift
    mkdir -p .build/reports
    "$(python_environment)/bin/python" scripts/acceptance.py "$name" .build/reports "$cache" -o cache_dir="$PWD/.build/pytest" "$@"
}
# More workers than processors: most tests wait for something most of the time. A file stays with one worker, which sets its
# servers up once.
# shellcheck disable=SC2034 # The scripts use it.
side_by_side=(-n "${AUTHGATEWAY_WORKERS:-$((2 * $(getconf _NPROCESSORS_ONLN)))}" --dist loadfile --no-loadscope-reorder)

# Prints where the Python environment of the acceptance tests is.
python_environment() { printf '%s/venv-%s\n' "$cache" "$( (python3 --version && cat acceptance/requirements{-alone,-clients,}.txt) | digest)"; }

# Prints where ruff and shellcheck are, and installs them first if they are missing.
lint_environment() {
    local requirements=scripts/requirements-lint.txt folder
    folder=$cache/lint-$( (python3 --version && cat "$requirements") | digest)
    (
        # Two checkouts may install them at once.
        flock 9
        [ ! -e "$folder/complete" ] || exit 0
        say "installing $(xargs <"$requirements") into $folder" >&2
        python3 -c 'import ensurepip, venv' 2>/dev/null || require_packages python3-venv >&2
        rm -rf "$folder"
        python3 -m venv "$folder" || fail "could not make a Python environment in $folder"
        "$folder/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: -r "$requirements" ||
            fail "could not install ruff and shellcheck; is the network there?"
        touch "$folder/complete"
    ) 9>"$cache/lint.lock" || return
    printf '%s\n' "$folder"
}

# Prints where the proxies are that ask the gateway in acceptance tests.
engines_folder() { printf '%s/engines-%s\n' "$cache" "$( (python3 --version && cat acceptance/requirements-engines.txt) | digest)"; }

# Exclusive access is checked while it runs by the debug build, which all tests use; docs/internals/adr/0016.
release_build() {
    local variant=$1 folder
    shift
    folder=$(scratch "$variant")
    # No path of this machine is in the program or in its symbols, so that two folders make the same bytes (docs/internals/adr/0037). The
    # libraries of an unpacked release lie in lib/authgateway, beside bin; the loader expands $ORIGIN.
    # shellcheck disable=SC2016
    in_scratch "$variant" build -c release --static-swift-stdlib -Xswiftc -enforce-exclusivity=unchecked \
        -Xswiftc -file-compilation-dir -Xswiftc /authgateway \
        -Xswiftc -file-prefix-map -Xswiftc "$folder=/authgateway/build" -Xswiftc -file-prefix-map -Xswiftc "$tree=/authgateway" \
        -Xcc "-ffile-prefix-map=$tree=/authgateway" -Xcc "-ffile-prefix-map=$folder=/authgateway/build" \
        --disable-local-rpath -Xlinker '-rpath=$ORIGIN/../lib/authgateway' "$@"
}

# Prints where the counts are that tell the optimizer which code of the request path runs how often; docs/internals/adr/0021. Prints
# nothing where the toolchain cannot use them.
release_profile() {
    local variant=${1:-main} text=Benchmarks/release.proftext tool folder profile
    tool=$(profdata_tool) || {
        say "building without the profile of the request path: this toolchain cannot use it" >&2
        return 0
    }
    folder=$(scratch "$variant")/$(swiftc -print-target-info | sed -n 's/.*"unversionedTriple": "\(.*\)".*/\1/p')/release
    # Its name changes with what is in it: the build system does not see that otherwise.
    profile=$objects/build/release-$( (echo "$folder" && cat "$text") | cksum | tr ' ' -).profdata
    if [ ! -s "$profile" ]; then
        mkdir -p "${profile%/*}"
        # What is private to a file is named after the file that it is compiled to.
        awk -v folder="$folder/" '/^[^\/;]+\.build\/[^;]*;/ { print folder $0; next } { print }' "$text" >"$profile.$$.text"
        "$tool" merge -o "$profile.$$" "$profile.$$.text" || fail "$text cannot be read; \`make profile\` makes it anew"
        mv "$profile.$$" "$profile"
        rm "$profile.$$.text"
    fi
    echo "$profile"
}

# Prints where the names of the functions are that run while the gateway serves, for the linker to lay them side by side;
# docs/internals/adr/0022. Prints nothing where the toolchain has no linker that takes them.
release_order() {
    local text=Benchmarks/release.order order
    [ "$(uname)" = Linux ] && [ -x "$(toolchain_folder)/ld.lld" ] && [ -s "$text" ] || return 0
    # Its name changes with what is in it, as that of the profile.
    order=$objects/build/release-$(cksum <"$text" | tr ' ' -).order
    [ -s "$order" ] || { mkdir -p "${order%/*}" && cp "$text" "$order.new" && mv "$order.new" "$order"; }
    echo "$order"
}

# Prints where llvm-profdata of the toolchain is; fails where the compiler takes no profile of this kind.
profdata_tool() {
    local tool
    tool=$(toolchain_folder)/llvm-profdata
    [ -x "$tool" ] && swiftc -frontend -help-hidden 2>/dev/null | grep -- -ir-profile-use >/dev/null && echo "$tool"
}

toolchain_folder() {
    local resources
    resources=$(swiftc -print-target-info | sed -n 's/.*"runtimeResourcePath": "\(.*\)".*/\1/p')
    echo "$resources/../../bin"
}
