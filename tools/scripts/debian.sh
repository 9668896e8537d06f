#!/bin/sh
# The README's commands, demo.sh and test.sh, on a Debian that has nothing else:
# sh tools/scripts/debian.sh [SUITE]...     by default bookworm trixie, which are Debian 12 and 13
# The sources are those of the last commit. Needs root, and a mirror of Debian.
set -eu
cd "$(dirname "$0")/../.."
[ $# -gt 0 ] || set -- bookworm trixie
sh tools/scripts/install.sh mmdebstrap

out=$PWD/build/debian
mkdir -p "$out"
for suite; do
    root=$out/$suite
    rm -rf "$root"
    echo "== $suite"
    mmdebstrap --variant=apt "$suite" "$root" >"$root.log" 2>&1 || {
        tail -5 "$root.log"
        exit 1
    }
    mkdir "$root/tuffet"
    git archive HEAD | tar -x -C "$root/tuffet"
    # what is mounted in this namespace goes away with it
    unshare --mount sh -ec '
        for name in proc sys dev; do
            mount --rbind "/$name" "$1/$name"
        done
        chroot "$1" sh -ec "
            cd /tuffet
            sh tools/scripts/demo.sh </dev/null
            sh tools/scripts/test.sh"' sh "$root" >>"$root.log" 2>&1 || {
        tail -40 "$root.log"
        exit 1
    }
    grep -E '^(Ok|Skipped):' "$root.log"
    rm -rf "$root"
done
echo "all passed"
