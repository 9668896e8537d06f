#!/bin/sh
# Compares the speed of two commits, in pairs: sh tools/scripts/pairs.sh A B [SHAPE[:BITS]]...
# Builds both in clean worktrees, build/pairs/COMMIT, and prints a Markdown table of B against A on
# the standard output: tokens/s, the ratio of the pairs and its range, the same by CPU time of the
# first thread, and whether B is faster by the rule of tuffet bench --compare, which B must have.
#
#   SHAPE    a shape of tuffet bench --shape, in BITS bits (8), or the path of a model file, which
#            contains a slash (default: smollm2-135m, smollm2-135m:4, llama-3.2-1b, llama-3.2-1b:4)
#   PAIRS    in the environment: how many pairs (9)
#   BENCH    in the environment: further options of bench (-t 1,2); CPU time tells most with -t 1
#   OPTIONS  in the environment: options of meson setup for both
set -eu
[ $# -ge 2 ] || {
    echo "usage: sh tools/scripts/pairs.sh A B [SHAPE[:BITS] | FILE]..." >&2
    exit 2
}
cd "$(dirname "$0")/../.."
out=$PWD/build/pairs
mkdir -p "$out"
a=$(git rev-parse --short --verify "$1^{commit}")
b=$(git rev-parse --short --verify "$2^{commit}")
shift 2
[ $# -gt 0 ] || set -- smollm2-135m smollm2-135m:4 llama-3.2-1b llama-3.2-1b:4

# build COMMIT: the program $out/COMMIT/build/tools/tuffet. A worktree holds the commit alone.
build() {
    [ -d "$out/$1" ] || git worktree add --quiet --detach "$out/$1" "$1"
    [ -z "$(git -C "$out/$1" status --porcelain --untracked-files=no)" ] || {
        echo "pairs.sh: $out/$1 was changed: git worktree remove --force $out/$1" >&2
        exit 1
    }
    # shellcheck disable=SC2086 # a word for each option
    sh tools/scripts/build.sh "$out/$1/build" "$out/$1" -Dtests=false ${OPTIONS-} >&2
}
build "$a"
build "$b"

# rows NAME: the table of bench --compare as rows of Markdown
rows() {
    awk -v name="$1" '$1 == "prefill" || $1 == "decode" {
        verdict = $12
        for (i = 13; i <= NF; i++) verdict = verdict " " $i
        printf "| %s | %s of %s | %s | %s | %s | %s (%s) | %s (%s) | %s |\n", name,
            $1 == "prefill" ? "prompt" : "generating", $2, $4, $7, $6, $8, $9, $10, $11, verdict
    }'
}

cpu=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)
echo "$b against $a, ${PAIRS:-9} pairs, $cpu, load $(cut -d' ' -f1-3 /proc/loadavg)" >&2
echo "| model | work | threads | $a, tokens/s | $b | ratio (range) | by CPU time (range) | $b is |"
echo "|---|---|---:|---:|---:|---:|---:|---|"
for shape; do
    case $shape in
    */*) model=$shape bits= ;;
    *:*) model=--shape=${shape%:*} bits=--bits=${shape#*:} ;;
    *) model=--shape=$shape bits= ;;
    esac
    # shellcheck disable=SC2086 # a word for each option
    "$out/$b/build/tools/tuffet" bench "$model" $bits ${BENCH:--t 1,2} --runs "${PAIRS:-9}" \
        --compare "$out/$a/build/tools/tuffet" >"$out/table"
    rows "$shape" <"$out/table"
done
