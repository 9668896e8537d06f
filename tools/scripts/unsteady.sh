#!/bin/sh
# Runs a test of build/test many times, half of them beside as many busy loops as there are CPUs,
# and says how many failed: sh tools/scripts/unsteady.sh TEST [TIMES]
# TIMES: 100 by default. BUILD: another build folder. The outputs of failures are in
# BUILD/unsteady-TEST.log.
set -eu
cd "$(dirname "$0")/../.."
build=${BUILD:-build/test} test=$1 times=${2:-100}
log=$build/unsteady-$test.log
: >"$log"

loops=
stop() {
    # shellcheck disable=SC2086 # a word for each loop
    [ -z "$loops" ] || kill $loops
    loops=
}
trap stop EXIT

failed=0
for i in $(seq "$times"); do
    if [ "$i" = $((times / 2 + 1)) ]; then
        for _ in $(seq "$(nproc)"); do
            (while :; do :; done) &
            loops="$loops $!"
        done
    fi
    if ! meson test -C "$build" --no-rebuild --quiet --logbase unsteady -t 4 "$test" \
        >/dev/null 2>&1; then
        failed=$((failed + 1))
        cat "$build/meson-logs/unsteady.txt" >>"$log"
    fi
done
echo "$test: $failed of $times failed"
[ "$failed" = 0 ] || {
    echo "see $log"
    exit 1
}
