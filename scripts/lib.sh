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

build_release() {
    say "building release (the first time takes some minutes)"
    # Exclusive access is checked while it runs by the debug build, which all tests use; docs/adr/0040.
    swift build -c release --product authgateway --static-swift-stdlib -Xswiftc -enforce-exclusivity=unchecked
}
