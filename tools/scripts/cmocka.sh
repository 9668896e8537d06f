#!/bin/sh
# Builds cmocka, static, for a target whose packages Debian does not have:
# sh tools/scripts/cmocka.sh TRIPLET SYSTEM     for example riscv64-linux-gnu Linux
# SYSTEM is CMake's name. Prints the folder for meson's --pkg-config-path.
set -eu
cd "$(dirname "$0")/../.."
out=$PWD/build/cmocka
if [ ! -f "$out/$1/lib/libcmocka.a" ]; then
    sh tools/scripts/install.sh cmake ninja-build >&2
    rm -rf "$out/sources"
    sh tools/scripts/source.sh "$out/sources" cmocka
    if ! {
        cmake -S "$out"/sources/cmocka-* -B "$out/$1-build" -G Ninja -Wno-dev \
            -DCMAKE_SYSTEM_NAME="$2" -DCMAKE_C_COMPILER="$1-gcc" -DCMAKE_BUILD_TYPE=Release \
            -DCMAKE_INSTALL_PREFIX="$out/$1" -DCMAKE_INSTALL_LIBDIR=lib \
            -DWITH_STATIC_LIB=ON -DWITH_EXAMPLES=OFF &&
            ninja -C "$out/$1-build" install &&
            rm "$out/$1"/lib/libcmocka.so* && # a test would look for it when it runs
            mv "$out/$1/lib/libcmocka-static.a" "$out/$1/lib/libcmocka.a"
    } >"$out/$1.log" 2>&1; then
        tail -20 "$out/$1.log" >&2
        exit 1
    fi
fi
echo "$out/$1/lib/pkgconfig"
