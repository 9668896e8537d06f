#!/bin/sh
# What .ci/run has no time for, one step after the other, and then which of them passed:
#
#     sh tools/scripts/everywhere.sh [STEP]...        without STEP, all: as root, on Debian for x86-64
#
# Each step says on its own what it installs and checks; its output goes to build/everywhere.
set -u
cd "$(dirname "$0")/../.." || exit

all="tsan i386 armhf riscv64 wasm windows static deb debian baremetal"
out=build/everywhere
mkdir -p "$out"

step() {
    case $1 in
    tsan | i386 | armhf | riscv64) sh tools/scripts/platforms.sh "$1" ;;
    wasm | windows | static | deb | debian | baremetal) sh "tools/scripts/$1.sh" ;;
    *)
        echo "everywhere.sh: no step $1; there are: $all"
        return 1
        ;;
    esac
}

failed=
# shellcheck disable=SC2086 # one word for each step
[ $# -gt 0 ] || set -- $all
for name; do
    start=$(date +%s)
    if step "$name" >"$out/$name.log" 2>&1; then
        echo "passed  $name, $(($(date +%s) - start)) s"
    else
        failed="$failed $name"
        echo "FAILED  $name, $(($(date +%s) - start)) s: see $out/$name.log"
        tail -3 "$out/$name.log"
    fi
done
[ -z "$failed" ]
