#!/bin/sh
# A token store in the smallest form: one file per token below $TOKEN_FOLDER. What it is given is encrypted already.
#
#   tokens:
#     store: command
#     command: [./files.sh]
#     environment: {TOKEN_FOLDER: /var/lib/authgateway/tokens}
#
# The protocol is that of docker's credential helpers, so docker-credential-pass, -secretservice and -osxkeychain do as
# well: "store" reads {"ServerURL", "Username", "Secret"}, "get" and "erase" read a server URL.
set -eu
umask 077
cd "$TOKEN_FOLDER"

name() { printf '%s' "$1" | tr -c 'a-z0-9' '_'; }
missing() { echo "credentials not found in native keychain"; exit 1; }

case "$1" in
store)
    entry=$(cat)
    file=$(name "$(printf '%s' "$entry" | sed 's/.*"ServerURL":"\([^"]*\)".*/\1/')")
    # Whole or not at all, whenever the power fails.
    printf '%s' "$entry" >"$file.new"
    sync "$file.new"
    mv "$file.new" "$file"
    sync .
    ;;
get)
    read -r url
    cat "$(name "$url")" 2>/dev/null || missing
    ;;
erase)
    read -r url
    rm "$(name "$url")" 2>/dev/null || missing
    ;;
*)
    echo "usage: $0 store|get|erase" >&2
    exit 2
    ;;
esac
