#!/bin/sh
# Builds the program with musl, and compares: sh tools/scripts/musl.sh [BUILD]
# A W8A8 file has the same bytes whichever C library the program has, on each set of kernels that
# this CPU has. BUILD: a build with glibc and tests (default build/test).
set -eu
cd "$(dirname "$0")/../.."
glibc=${1:-build/test}
musl=build/musl

sh tools/scripts/install.sh musl-tools linux-libc-dev

# Debian's musl-gcc finds the headers of musl alone, and port/posix.c asks for one of Linux.
mkdir -p "$musl-headers"
for name in linux asm asm-generic; do
    for from in /usr/include "/usr/include/$(gcc -print-multiarch)"; do
        [ ! -d "$from/$name" ] || ln -sfn "$from/$name" "$musl-headers/$name"
    done
done
[ -d "$musl" ] || CC=musl-gcc meson setup "$musl" --werror -Dtests=false \
    -Dthreads=posix -Dmpi=disabled \
    -Djansson=disabled -Dlibcurl=disabled -Dlibedit=disabled \
    -Dc_args="-isystem '$PWD/$musl-headers'"
ninja -C "$musl" --quiet

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$glibc/tests/toy" write "$folder/floats.gguf"
for options in "" "--bits 4 --group 32" "--range percentile --rotate all"; do
    want=
    # "built with openmp c avx2": the kernels come after the threads
    for isa in $("$glibc/tools/tuffet" --version | sed -n 's/^built with [a-z]* //p'); do
        for build in "$glibc" "$musl"; do
            # shellcheck disable=SC2086 # words of options
            "$build/tools/tuffet" quantize "$folder/floats.gguf" -o "$folder/out.gguf" \
                --cpu "$isa" --calib-tokens 1024 $options >/dev/null 2>"$folder/said" || {
                # a set of kernels that this CPU lacks
                grep -q 'this CPU has no kernels' "$folder/said" && continue
                cat "$folder/said" >&2
                exit 1
            }
            sum=$(sha256sum <"$folder/out.gguf")
            echo "$sum  $build $isa $options"
            [ "${want:=$sum}" = "$sum" ] || {
                echo "musl.sh: $build makes another file with the kernels $isa" >&2
                exit 1
            }
        done
    done
done
