#!/bin/sh
# What .ci/run has no time for: sh tools/scripts/platforms.sh [PART]...
# Parts, by default all:
#   tsan    teams, sessions, caches and the server under ThreadSanitizer, with POSIX threads
#   armhf   results on 32-bit ARM, under qemu: the suite "numerics", and sizes that wrap in 32 bits
#   riscv64 results on 64-bit RISC-V, under qemu: the suite "numerics", files and tokenizers
#   i386    all tests but the long ones on 32-bit x86
set -eu
cd "$(dirname "$0")/../.."

# build NAME MESON-OPTION...: builds build/NAME, from scratch only if it is not there.
build() {
    name=$1
    shift
    echo "== $name"
    [ -d "build/$name" ] || meson setup "build/$name" --werror "$@" >/dev/null
    ninja -C "build/$name" --quiet
}

check() {
    name=$1
    shift
    meson test -C "build/$name" --no-rebuild --print-errorlogs -t 10 "$@"
}

[ $# -gt 0 ] || set -- tsan i386 armhf riscv64
for part; do
    case $part in
    tsan)
        sh tools/scripts/install.sh clang
        version=$(clang -dumpversion | cut -d. -f1)
        sh tools/scripts/install.sh "libclang-rt-$version-dev"
        CC=clang CXX=clang++ build tsan -Dthreads=posix --buildtype=debugoptimized \
            -Db_sanitize=thread -Db_lundef=false
        check tsan threads session batch cancel kv slide load prefix sampler cpus cli_serve \
            cli_serve_cache cli_serve_embeddings cli_serve_load cli_serve_native cli_serve_slots
        ;;
    i386)
        sh tools/scripts/install.sh --architecture i386 gcc-i686-linux-gnu libc6-dev-i386-cross \
            libcmocka-dev:i386 libgomp1:i386 libjansson-dev:i386
        build i386 --cross-file tests/cross/i386.ini
        check i386 --no-suite long
        ;;
    armhf)
        sh tools/scripts/install.sh --architecture armhf gcc-arm-linux-gnueabihf \
            libc6-dev-armhf-cross qemu-user libcmocka-dev:armhf libgomp1:armhf libjansson-dev:armhf
        build armhf --cross-file tests/cross/armhf.ini
        check armhf --suite numerics --no-suite long
        check armhf wide_sizes llama2c gguf_read
        ;;
    riscv64)
        # Neither Debian's cmocka nor its libraries: RISC-V is in no release before Debian 13.
        sh tools/scripts/install.sh gcc-riscv64-linux-gnu libc6-dev-riscv64-cross qemu-user
        cmocka=$(sh tools/scripts/cmocka.sh riscv64-linux-gnu Linux)
        build riscv64 --cross-file tests/cross/riscv64.ini --pkg-config-path "$cmocka" \
            -Djansson=disabled
        check riscv64 --suite numerics --no-suite slow --no-suite long
        check riscv64 llama2c gguf_read tokenizer
        ;;
    *)
        echo "platforms.sh: no part $part" >&2
        exit 2
        ;;
    esac
done
