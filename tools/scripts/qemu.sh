#!/bin/sh
# Prints the folder of a qemu-aarch64 of 9.1 or later, the first that multiplies by SME as it
# should: the installed one, or that of Debian's backports, which goes to build/qemu.
set -eu
cd "$(dirname "$0")/../.."

new() {
    "$1" --version 2>/dev/null | awk '/^qemu-aarch64 version/ {
        split($3, n, "."); found = n[1] > 9 || n[1] == 9 && n[2] >= 1 } END { exit !found }'
}

if new qemu-aarch64; then
    dirname "$(command -v qemu-aarch64)"
    exit
fi
out=$PWD/build/qemu
if ! new "$out/usr/bin/qemu-aarch64"; then
    # apt with lists of its own: the system's sources stay as they are
    mkdir -p "$out/apt/lists/partial" "$out/apt/archives/partial"
    . /etc/os-release
    from=$(apt-get indextargets --format "\$(REPO_URI)" "Codename: $VERSION_CODENAME" \
        "Created-By: Packages" "Component: main" | head -n 1)
    echo "deb $from $VERSION_CODENAME-backports main" >"$out/apt/sources.list"
    apt() {
        timeout 300 apt-get -qq -o "Dir::Etc::sourcelist=$out/apt/sources.list" \
            -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$out/apt/lists" \
            -o "Dir::Cache=$out/apt" "$@" >&2
    }
    apt update
    (cd "$out" && apt download -t "$VERSION_CODENAME-backports" qemu-user)
    dpkg -x "$out"/qemu-user_*.deb "$out"
    new "$out/usr/bin/qemu-aarch64"
fi
echo "$out/usr/bin"
