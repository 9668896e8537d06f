#!/bin/sh
# What .ci/run has no time for, one step after the other; as root, on Debian for x86-64:
#
#     sh tools/scripts/everywhere.sh            all steps that have not passed at this commit yet
#     sh tools/scripts/everywhere.sh STEP...    these steps, whether they have passed or not
#     sh tools/scripts/everywhere.sh --table    what passed, at which commit, and how long it took
#
# So a run that was stopped goes on where it was. Each step says on its own what it installs and
# checks; its output goes to build/everywhere/STEP.log.
set -u
cd "$(dirname "$0")/../.." || exit

all="whole sanitizers alone arm72 arm76 arm_cycles sme i386 armhf riscv64 rvv musl tsan msan cuda
thorough campaign hostile fuzz commands wasm windows static amalgamation abi deb debian baremetal
steady"
out=build/everywhere
mkdir -p "$out"
commit=$(git rev-parse --short HEAD)
[ -z "$(git status --porcelain)" ] || commit=$commit+changes

# Inputs of others, under sanitizers; then each allocation of 20 requests fails, where no sanitizer
# replaces malloc.
hostile() {
    export ASAN_OPTIONS=abort_on_error=1:intercept_tls_get_addr=0 UBSAN_OPTIONS=halt_on_error=1 \
        LSAN_OPTIONS="suppressions=$PWD/tests/support/lsan.supp"
    CHECK=no sh tools/scripts/platforms.sh sanitizers || return
    for part in hostile=500 folders=400 templates=400 grammars=300 kills=200 server=50; do
        tools/scripts/campaign.py --build build/asan --only "${part%=*}" --runs "${part#*=}" ||
            return
    done
    sh tools/scripts/build.sh build/test --werror &&
        tools/scripts/campaign.py --only requests --minutes 60
}

# Estimates the loops of 64-bit ARM, by the LLVM of the table in tools/lab/speed.md.
arm_cycles() {
    CHECK=no sh tools/scripts/platforms.sh arm72 && sh tools/scripts/install.sh llvm-19 || return
    version=$(sed -n "s/^  version: '\(.*\)',/\1/p" meson.build)
    python3 tools/lab/arm_cycles.py "build/arm/libtuffet.so.$version" --llvm-mca llvm-mca-19
}

step() {
    case $1 in
    whole | sanitizers | alone | arm72 | arm76 | sme | i386 | armhf | riscv64 | rvv | tsan | \
        msan | cuda)
        sh tools/scripts/platforms.sh "$1"
        ;;
    arm_cycles) arm_cycles ;;
    thorough)
        sh tools/scripts/install.sh kotlin default-jdk-headless &&
            TUFFET_THOROUGH=1 sh tools/scripts/test.sh -t 40
        ;;
    campaign) tools/scripts/campaign.py --minutes 30 --seed "$(date +%j)" ;;
    hostile) (hostile) ;;
    commands)
        sh tools/scripts/install.sh curl && sh tools/scripts/test.sh commands &&
            python3 tests/tree/commands.py . build/test --everywhere
        ;;
    fuzz) sh tools/scripts/oss_fuzz.sh 60 ;;
    musl | wasm | windows | static | amalgamation | abi | deb | debian | baremetal | steady)
        sh "tools/scripts/$1.sh"
        ;;
    *)
        echo "everywhere.sh: no step $1; there are: $all"
        return 1
        ;;
    esac
}

# What became of a step: a line "RESULT STEP COMMIT DATE SECONDS", of which the last one counts.
record() {
    echo "$1 $2 $commit $(date +%Y-%m-%d) $3" >>"$out/results"
}

has_passed() {
    case $commit in *+changes) return 1 ;; esac
    grep -q "^passed $1 $commit " "$out/results" 2>/dev/null
}

table() {
    for name in $all; do
        grep "^[a-zA-Z]* $name " "$out/results" 2>/dev/null | tail -1
    done | awk '{ printf "%-8s %-12s %-16s %s %6d s\n", $1, $2, $3, $4, $5 }'
}

if [ "${1-}" = --table ]; then
    table
    exit
fi
named=$#
# shellcheck disable=SC2086 # one word for each step
[ $# -gt 0 ] || set -- $all
failed=
for name; do
    if [ "$named" = 0 ] && has_passed "$name"; then
        continue
    fi
    start=$(date +%s)
    if step "$name" >"$out/$name.log" 2>&1; then
        result=passed
    else
        result=FAILED failed="$failed $name"
    fi
    seconds=$(($(date +%s) - start))
    record "$result" "$name" "$seconds"
    echo "$result  $name, $seconds s"
    [ "$result" = passed ] || {
        echo "see $out/$name.log:"
        tail -3 "$out/$name.log"
    }
done
[ -z "$failed" ]
