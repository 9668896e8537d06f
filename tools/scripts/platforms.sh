#!/bin/sh
# Builds and tests for other processors, and with other checks, than .ci/run has time for:
#
#     sh tools/scripts/platforms.sh PART...
#
#   whole      all tests natively, in build/test
#   sanitizers all tests with clang's address and undefined-behaviour sanitizers
#   alone      all tests of the C reference, without threads and libraries
#   tsan       teams, sessions, caches and the server under ThreadSanitizer, with POSIX threads
#   msan       what reads files and text, and numerics, under MemorySanitizer
#   arm72      all tests but the longest as a Cortex-A72 under qemu
#   arm76      numerics as a Cortex-A76 under qemu
#   sme        the kernels of SME under a newer qemu, with vectors of 128, 256 and 512 bits, and
#              numerics with the last
#   armhf      results on 32-bit ARM, under qemu: the suite "numerics", and sizes that wrap 32 bits
#   riscv64    results on 64-bit RISC-V, under qemu: the suite "numerics", files and tokenizers
#   rvv        the same with the kernels of V, by clang under a newer qemu: kernels with registers
#              of 128 and 256 bits, numerics with the latter
#   i386       32-bit x86: all tests but the longest; under qemu, where the kernel has no 32-bit
#              programs, numerics, files and sizes
#   cuda       the plug-in for all GPUs by nvcc, and the suite "gpu", which is skipped without a GPU
set -eu
cd "$(dirname "$0")/../.."

# build NAME MESON-OPTION...: builds build/NAME, from scratch only if it is not there.
build() {
    name=$1
    shift
    echo "== $name"
    sh tools/scripts/build.sh "build/$name" --werror "$@"
}

# With CHECK=no, parts are built and not tested.
check() {
    [ "${CHECK-}" != no ] || return 0
    name=$1
    shift
    python3 tests/suite.py "build/$name" --quiet -t 10 "$@"
}

clang() {
    sh tools/scripts/install.sh clang
    version=$(command clang -dumpversion | cut -d. -f1)
    sh tools/scripts/install.sh "libclang-rt-$version-dev"
    export CC=clang CXX=clang++
}

# arm NAME
arm() {
    sh tools/scripts/install.sh --architecture arm64 gcc-aarch64-linux-gnu libc6-dev-arm64-cross \
        qemu-user libjansson-dev:arm64 libcmocka-dev:arm64 libgomp1:arm64
    build "$1" --cross-file tests/cross/aarch64.ini
}

part() {
    case $1 in
    whole) sh tools/scripts/test.sh --quiet ;;
    sanitizers)
        clang
        build asan -Dthreads=posix --buildtype=debugoptimized -Db_sanitize=address,undefined \
            -Db_lundef=false
        check asan
        ;;
    alone)
        build alone -Dthreads=none -Dsimd=false -Djansson=disabled -Dlibcurl=disabled \
            -Dlibedit=disabled
        check alone
        ;;
    tsan)
        clang
        build tsan -Dthreads=posix --buildtype=debugoptimized -Db_sanitize=thread -Db_lundef=false
        check tsan threads session batch cancel kv slide load prefix sampler cpus cli_serve \
            cli_serve_cache cli_serve_embeddings cli_serve_load cli_serve_native cli_serve_slots
        ;;
    msan)
        # Without libraries that it does not watch. It does not know fstat64.
        clang
        build msan -Dthreads=none --buildtype=debugoptimized -Db_sanitize=memory -Db_lundef=false \
            -Djansson=disabled -Dtools=false -Dmpi=disabled -Dc_args=-U_FILE_OFFSET_BITS
        check msan --suite bytes --suite numerics --no-suite long
        ;;
    arm72)
        arm arm
        QEMU_CPU=cortex-a72 check arm --no-suite long
        ;;
    arm76)
        arm arm
        QEMU_CPU=cortex-a76 check arm --suite numerics --no-suite slow --no-suite long
        ;;
    sme)
        folder=$(sh tools/scripts/qemu.sh)
        PATH=$folder:$PATH
        arm sme
        for bytes in 16 32; do
            QEMU_CPU=max,sme-default-vector-length=$bytes check sme kernels za
        done
        QEMU_CPU=max,sme-default-vector-length=64 check sme --suite numerics --no-suite slow \
            --no-suite long
        ;;
    i386)
        sh tools/scripts/install.sh --architecture i386 gcc-i686-linux-gnu libc6-dev-i386-cross \
            libcmocka-dev:i386 libgomp1:i386 libjansson-dev:i386
        if /lib/ld-linux.so.2 --version >/dev/null 2>&1; then
            build i386 --cross-file tests/cross/i386.ini
            check i386 --no-suite long
        else
            sh tools/scripts/install.sh qemu-user
            build i386 --cross-file tests/cross/i386.ini --cross-file tests/cross/i386_qemu.ini
            check i386 --suite numerics --no-suite slow --no-suite long
            check i386 wide_sizes gguf_read llama2c tokenizer
        fi
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
    rvv)
        sh tools/scripts/install.sh gcc-riscv64-linux-gnu libc6-dev-riscv64-cross clang-19
        cmocka=$(sh tools/scripts/cmocka.sh riscv64-linux-gnu Linux)
        folder=$(sh tools/scripts/qemu.sh)
        PATH=$folder:$PATH
        build rvv --cross-file tests/cross/riscv64.ini --cross-file tests/cross/riscv64_clang.ini \
            --pkg-config-path "$cmocka" -Dthreads=posix -Djansson=disabled -Dtools=false
        QEMU_CPU=rv64,v=true,vlen=128 check rvv kernels
        QEMU_CPU=rv64,v=true,vlen=256 check rvv --suite numerics --no-suite slow --no-suite long
        ;;
    cuda)
        command -v nvcc >/dev/null || {
            echo "skipped: there is no nvcc"
            return
        }
        build cuda -Dcuda=enabled
        check cuda --suite gpu
        ;;
    *)
        echo "platforms.sh: no part $1" >&2
        return 2
        ;;
    esac
}

[ $# -gt 0 ] || {
    sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
    exit 2
}
for name; do
    part "$name"
done
