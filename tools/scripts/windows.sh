#!/bin/sh
# Builds the program for Windows, and compares it with the one for this machine:
#     sh tools/scripts/windows.sh [BUILD]       BUILD: a build for this machine with its tests
# Makes the folder build/windows/tuffet, with the program, the model that ships and the license.
# jansson, which Debian has for Linux alone, is built from Debian's sources. Needs Debian on x86-64;
# wine runs the program. tests/cli/windows.py says what is compared. With CHECK=no, the program is
# only built.
set -eu
cd "$(dirname "$0")/../.."
native=${1:-build/test}
out=$PWD/build/windows
sh tools/scripts/install.sh gcc libc6-dev meson ninja-build pkgconf python3 libcmocka-dev cmake \
    gcc-mingw-w64-x86-64 wine64
mkdir -p "$out"
[ -d "$out/sources" ] || sh tools/scripts/source.sh "$out/sources" jansson

# The seed of its tables comes from the clock: the system's random numbers are in one more DLL.
cmake -S "$out"/sources/jansson-2.* -B "$out/jansson" -G Ninja -Wno-dev -DCMAKE_SYSTEM_NAME=Windows \
    -DCMAKE_C_COMPILER=x86_64-w64-mingw32-gcc -DCMAKE_RC_COMPILER=x86_64-w64-mingw32-windres \
    -DCMAKE_C_FLAGS="-ffile-prefix-map=$out=." -DCMAKE_BUILD_TYPE=Release \
    -DJANSSON_BUILD_DOCS=OFF -DJANSSON_WITHOUT_TESTS=ON -DJANSSON_EXAMPLES=OFF \
    -DUSE_WINDOWS_CRYPTOAPI=OFF -DCMAKE_INSTALL_PREFIX="$out/needs" \
    -DCMAKE_INSTALL_LIBDIR=lib >"$out/jansson.log"
ninja -C "$out/jansson" --quiet install >>"$out/jansson.log"
cat >"$out/needs.ini" <<END
[binaries]
pkgconfig = 'pkg-config'

[properties]
pkg_config_libdir = '$out/needs/lib/pkgconfig'
END

[ -f "$out/build/build.ninja" ] ||
    meson setup "$out/build" --werror --cross-file tests/cross/x86_64-windows.ini \
        --cross-file "$out/needs.ini" -Djansson=enabled -Dtests=false >/dev/null
ninja -C "$out/build" --quiet

needs=$(x86_64-w64-mingw32-objdump -p "$out/build/tools/tuffet.exe" | sed -n 's/.*DLL Name: //p' | sort |
    tr '\n' ' ')
[ "$needs" = "KERNEL32.dll msvcrt.dll " ] || {
    echo "windows.sh: the program needs more than the system has: $needs" >&2
    exit 1
}
mkdir -p "$out/tuffet"
cp LICENSE models/demo/stories2M.gguf "$out/tuffet"
x86_64-w64-mingw32-strip -o "$out/tuffet/tuffet.exe" "$out/build/tools/tuffet.exe"
du -b "$out/tuffet/tuffet.exe"

[ "${CHECK-}" != no ] || exit 0

[ -d "$native" ] || meson setup "$native" --werror >/dev/null
ninja -C "$native" --quiet tools/tuffet tests/toy
export WINEPREFIX="$out/wine" MESON_EXE_WRAPPER=/usr/lib/wine/wine64
# By its own path it finds the model beside it.
WINEDEBUG=-all "$MESON_EXE_WRAPPER" "$out/tuffet/tuffet.exe" run --temp 0 -n 30 </dev/null
python3 tests/cli/windows.py "$out/tuffet/tuffet.exe" "$native/tools/tuffet" "$native/tests/toy"
