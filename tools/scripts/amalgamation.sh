#!/bin/sh
# Compiles the library in a few files as its README says, for x86-64 and 64-bit ARM, and as a part
# of a project of CMake: sh tools/scripts/amalgamation.sh [BUILD]
# Logits must have the bits of the library of BUILD (default build/test), on each ISA level that
# this CPU and qemu have. Needs Debian on x86-64.
set -eu
cd "$(dirname "$0")/../.."
build=${1:-build/test}
out=$PWD/build/amalgamation
model=$PWD/models/demo/stories2M.gguf
sh tools/scripts/install.sh gcc libc6-dev cmake make gcc-aarch64-linux-gnu libc6-dev-arm64-cross \
    qemu-user python3

rm -rf "$out"
python3 tools/scripts/amalgamate.py "$out/source"
want=$("$build/tests/abi/logits" "$model")

# block N: the N-th indented block of the README.
block() {
    awk -v n="$1" '
        /^    / { if (!inside) at++; inside = 1; if (at == n) print; next }
        { inside = 0 }' "$out/source/README.md"
}

# compare PROGRAM ISA...: runs with each ISA level.
compare() {
    program=$1
    shift
    for isa; do
        got=$($program "$model" "$isa" 2>"$out/said") || {
            # a level that this CPU lacks
            grep -q 'this CPU has no such kernels' "$out/said" && continue
            cat "$out/said" >&2
            exit 1
        }
        echo "$got $isa"
        [ "$got" = "$want" ] || {
            echo "amalgamation.sh: $isa: the library has $want" >&2
            exit 1
        }
    done
}

# as_said N COMPILER: runs the N-th block of the README with `cc` for COMPILER.
as_said() {
    folder=$out/$2
    cp -R "$out/source" "$folder"
    cp tests/abi/logits.c "$folder/app.c"
    mkdir "$folder/bin"
    ln -s "$(command -v "$2")" "$folder/bin/cc"
    block "$1" >"$folder/commands"
    (cd "$folder" && PATH="$folder/bin:$PATH" sh -eu commands)
}

echo "== x86-64"
as_said 1 gcc
compare "$out/gcc/app" c avx2 avxvnni avx512 avx512vnni

echo "== 64-bit ARM"
as_said 2 aarch64-linux-gnu-gcc
compare "qemu-aarch64 -L /usr/aarch64-linux-gnu -cpu max $out/aarch64-linux-gnu-gcc/app" neon \
    dotprod i8mm

echo "== CMake, which fetches the sources"
mkdir "$out/mine"
cp tests/abi/logits.c "$out/mine"
cat >"$out/mine/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.16)
project(mine C)
include(FetchContent)
FetchContent_Declare(tuffet URL "$out/source.tar")
FetchContent_MakeAvailable(tuffet)
add_executable(logits logits.c)
target_link_libraries(logits tuffet::tuffet)
END
tar -C "$out" -cf "$out/source.tar" source
cmake -Wno-dev -S "$out/mine" -B "$out/cmake" >"$out/cmake.log"
cmake --build "$out/cmake" >>"$out/cmake.log"
compare "$out/cmake/logits" c avx2 avxvnni avx512 avx512vnni
