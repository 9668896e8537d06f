#!/bin/sh
# Makes models/demo/stories2M.gguf from its teacher:
#
#     sh tools/lab/demo/make.sh BUILD TEACHER TOKENIZER
#
#   BUILD      a meson build directory of this tree
#   TEACHER    stories15M.bin, TOKENIZER: its tokenizer.bin, both from github.com/karpathy/llama2.c
#
# Intermediate files are kept in $TUFFET_DEMO (default ~/.cache/tuffet/demo). A step whose result
# exists is skipped, and training continues where it was stopped. Two cores are busy, at the lowest
# priority.
set -eu
[ $# -eq 3 ] || { sed -n '2,11s/^# \{0,1\}//p' "$0" >&2; exit 2; }

here=$(cd "$(dirname "$0")" && pwd)
out=$here/../../../models/demo/stories2M.gguf
build=$(cd "$1" && pwd) teacher=$(realpath "$2") tokenizer=$(realpath "$3")
work=${TUFFET_DEMO:-$HOME/.cache/tuffet/demo}
prompts=$here/prompts.txt
bin=$build/tools/lab/demo

# The programs start threads themselves. OpenBLAS 0.3.21 takes newer AMD CPUs for Haswell and does
# not use AVX-512.
export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=2
if grep -q avx512dq /proc/cpuinfo; then
    export OPENBLAS_CORETYPE=SkylakeX
fi

for name in sample vocab train export; do
    ninja -C "$build" "tools/lab/demo/teach-$name" >&2
done
ninja -C "$build" tools/tuffet >&2
mkdir -p "$work"
cd "$work"

# make_once FILE COMMAND...: makes FILE, unless it exists, by a command that writes FILE.new
make_once() {
    file=$1
    shift
    [ -e "$file" ] && return
    nice -n 19 "$@"
    mv "$file.new" "$file"
}

# The teacher's use of tokens, and with it the vocabulary.
make_once mass.txt "$bin/teach-sample" mass "$teacher" "$tokenizer" "$prompts" mass.txt.new \
    500000 1
make_once vocab.bin "$bin/teach-vocab" "$tokenizer" mass.txt 2944 vocab.bin.new

# Stories: two parts to learn from, sampled at the same time, and one for validation.
sample() {
    make_once "$1" "$bin/teach-sample" corpus "$teacher" "$tokenizer" "$prompts" "$1.new" \
        "$2" "$3" vocab.bin mass.txt
}
sample corpus1.bin 32472 1 &
first=$!
sample corpus2.bin 32529 2
wait $first
sample valid.bin 859 3

nice -n 19 "$bin/teach-train" student.bin 5500 valid.bin corpus1.bin corpus2.bin
"$bin/teach-export" student.bin vocab.bin "$out"
"$build/tools/tuffet" run "$out" -p "Once upon a time" --echo --temp 0
