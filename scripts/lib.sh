# Shared by the scripts in this folder; source it, do not run it.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
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

# Builds the gateway, or another product as it is built.
build_release() {
    local product=${1:-authgateway} profile order flags=()
    say "building release of $product (the first time takes some minutes)"
    profile=$(release_profile)
    # The compiler would keep the code of an earlier build where only the profile has changed.
    [ -z "$profile" ] ||
        flags+=(-Xswiftc -Xfrontend -Xswiftc "-ir-profile-use=$profile" -Xswiftc -Xfrontend -Xswiftc -disable-incremental-llvm-codegen)
    order=$(release_order)
    [ -z "$order" ] ||
        flags+=(-Xswiftc -Xfrontend -Xswiftc -function-sections -Xswiftc -use-ld=lld
            -Xlinker "--symbol-ordering-file=$order" -Xlinker --no-warn-symbol-ordering)
    release_build --product "$product" "${flags[@]}"
}

# Exclusive access is checked while it runs by the debug build, which all tests use; docs/adr/0040.
release_build() {
    swift build -c release --static-swift-stdlib -Xswiftc -enforce-exclusivity=unchecked "$@"
}

# Prints where the counts are that tell the optimizer which code of the request path runs how often; docs/adr/0063. Prints
# nothing where the toolchain cannot use them.
release_profile() {
    local text=Benchmarks/release.proftext tool folder profile
    tool=$(profdata_tool) || {
        say "building without the profile of the request path: this toolchain cannot use it" >&2
        return 0
    }
    folder=$(swift build -c release --show-bin-path)
    # Its name changes with what is in it: the build system does not see that otherwise.
    profile=$root/.build/release-$( (echo "$folder" && cat "$text") | cksum | tr ' ' -).profdata
    if [ ! -s "$profile" ]; then
        mkdir -p "${profile%/*}"
        # What is private to a file is named after the file that it is compiled to.
        awk -v folder="$folder/" '/^[^\/;]+\.build\/[^;]*;/ { print folder $0; next } { print }' "$text" >"$profile.text"
        "$tool" merge -o "$profile" "$profile.text" || fail "$text cannot be read; \`make profile\` makes it anew"
        rm "$profile.text"
    fi
    echo "$profile"
}

# Prints where the names of the functions are that run while the gateway serves, for the linker to lay them side by side;
# docs/adr/0064. Prints nothing where the toolchain has no linker that takes them.
release_order() {
    local text=Benchmarks/release.order order
    [ "$(uname)" = Linux ] && [ -x "$(toolchain_folder)/ld.lld" ] && [ -s "$text" ] || return 0
    # Its name changes with what is in it, as that of the profile.
    order=$root/.build/release-$(cksum <"$text" | tr ' ' -).order
    [ -s "$order" ] || { mkdir -p "${order%/*}" && cp "$text" "$order"; }
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
