#!/bin/sh
# Runs the whole suite of build/test again and again, as it may never fail without a reason:
#
#     sh tools/scripts/steady.sh [KIND COUNT]...
#
#   loops      beside four busy loops (10 times)
#   one        on one CPU (5 times)
#   sanitizers with clang's sanitizers, in build/asan (2 times)
#
# A run that was stopped goes on where it was: build/steady/results has a line for each run, "KIND
# COMMIT passed" or the tests that failed, whose outputs are in build/steady.
set -eu
cd "$(dirname "$0")/../.."
out=build/steady
mkdir -p "$out"
commit=$(git rev-parse --short HEAD)
[ $# -gt 0 ] || set -- loops 10 one 5 sanitizers 2

loops=
stop() {
    # shellcheck disable=SC2086 # a word for each loop
    [ -z "$loops" ] || kill $loops
    loops=
}
trap stop EXIT

busy() {
    for _ in 1 2 3 4; do
        (while :; do :; done) &
        loops="$loops $!"
    done
}

# suite LOG [PREFIX...]: a run of all tests, the output to LOG
suite() {
    log=$1 folder=$2
    shift 2
    "$@" python3 tests/suite.py "$folder" --quiet -t 10 >"$log" 2>&1
}

once() {
    case $1 in
    loops)
        busy
        suite "$2" build/test && status=0 || status=$?
        stop
        return "$status"
        ;;
    one) suite "$2" build/test taskset -c "$(taskset -pc $$ | sed 's/.*[: ]\([0-9]*\).*/\1/')" ;;
    sanitizers) suite "$2" build/asan ;;
    *)
        echo "steady.sh: no kind $1" >&2
        exit 2
        ;;
    esac
}

# The build of a kind of run.
prepare() {
    case $1 in
    sanitizers) CHECK=no sh tools/scripts/platforms.sh sanitizers ;;
    *) sh tools/scripts/build.sh build/test --werror ;;
    esac >"$out/build.log" 2>&1 || {
        tail -5 "$out/build.log"
        exit 1
    }
}

while [ $# -gt 0 ]; do
    kind=$1 count=$2
    shift 2
    prepare "$kind"
    done=$(grep -c "^$kind $commit " "$out/results" 2>/dev/null || true)
    while [ "${done:-0}" -lt "$count" ]; do
        done=$((${done:-0} + 1))
        log=$out/$kind-$done.log
        if once "$kind" "$log"; then
            result=passed
        else
            result=$(sed -n 's/^\(failed  \|too long\) //p' "$log" | tr '\n' ' ')
        fi
        echo "$kind $commit ${result:-"no result"}" >>"$out/results"
        echo "$kind, run $done of $count: ${result:-"no result, see $log"}"
    done
done
! grep " $commit " "$out/results" | grep -v " passed$"
