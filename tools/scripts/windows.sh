#!/bin/sh
# Builds the program for Windows, and compares it with the one for this machine:
#     sh tools/scripts/windows.sh [BUILD]       BUILD: a build for this machine with its tests
# Makes the folder build/windows/tuffet, with the program, the model that ships and the licenses.
# jansson and libevent, which Debian has for Linux alone, are built from Debian's sources. Needs
# Debian on x86-64; wine runs the program. tests/cli/windows.py says what is compared. With
# CHECK=no, the program is only built.
set -eu
cd "$(dirname "$0")/../.."
native=${1:-build/test}
out=$PWD/build/windows
sh tools/scripts/install.sh gcc libc6-dev meson ninja-build pkgconf python3 libcmocka-dev cmake \
    libjansson-dev libevent-dev gcc-mingw-w64-x86-64-posix wine64
mkdir -p "$out"
[ -d "$out/sources" ] || sh tools/scripts/source.sh "$out/sources" jansson libevent

# build_library FOLDER OPTION...: into $out/needs.
build_library() {
    (
        source=$1 name=${1##*/}
        shift
        cmake -S "$source" -B "$out/$name" -G Ninja -Wno-dev -DCMAKE_SYSTEM_NAME=Windows \
            -DCMAKE_C_COMPILER=x86_64-w64-mingw32-gcc-posix \
            -DCMAKE_RC_COMPILER=x86_64-w64-mingw32-windres \
            -DCMAKE_C_FLAGS="-ffile-prefix-map=$out=." -DCMAKE_BUILD_TYPE=Release \
            -DCMAKE_INSTALL_PREFIX="$out/needs" -DCMAKE_INSTALL_LIBDIR=lib "$@"
        ninja -C "$out/$name" install
    ) >"$out/${1##*/}.log" 2>&1 || {
        tail -20 "$out/${1##*/}.log"
        exit 1
    }
}

build_library "$out"/sources/jansson-2.* -DJANSSON_BUILD_DOCS=OFF -DJANSSON_WITHOUT_TESTS=ON \
    -DJANSSON_EXAMPLES=OFF
build_library "$out"/sources/libevent-2.* -DEVENT__LIBRARY_TYPE=STATIC -DEVENT__DISABLE_OPENSSL=ON \
    -DEVENT__DISABLE_TESTS=ON -DEVENT__DISABLE_SAMPLES=ON -DEVENT__DISABLE_BENCHMARK=ON
cat >"$out/needs.ini" <<END
[binaries]
pkgconfig = 'pkg-config'

[properties]
pkg_config_libdir = '$out/needs/lib/pkgconfig'
END

[ -f "$out/build/build.ninja" ] ||
    meson setup "$out/build" --werror --cross-file tests/cross/x86_64-windows.ini \
        --cross-file "$out/needs.ini" -Dthreads=posix -Djansson=enabled -Dlibevent=enabled \
        -Dprefer_static=true -Dtests=false >/dev/null
ninja -C "$out/build" --quiet

# WS2_32 and IPHLPAPI have sockets, ADVAPI32 random numbers for jansson and libevent.
system="ADVAPI32.dll IPHLPAPI.DLL KERNEL32.dll WS2_32.dll msvcrt.dll "
needs=$(x86_64-w64-mingw32-objdump -p "$out/build/tools/tuffet.exe" | sed -n 's/.*DLL Name: //p' |
    LC_ALL=C sort | tr '\n' ' ')
[ "$needs" = "$system" ] || {
    echo "windows.sh: the program needs other libraries than $system: $needs" >&2
    exit 1
}
mkdir -p "$out/tuffet/licenses"
cp LICENSE models/demo/stories2M.gguf "$out/tuffet"
cp "$out"/sources/jansson-2.*/LICENSE "$out/tuffet/licenses/jansson"
cp "$out"/sources/libevent-2.*/LICENSE "$out/tuffet/licenses/libevent"
cp /usr/share/doc/mingw-w64-common/copyright "$out/tuffet/licenses/mingw-w64"
x86_64-w64-mingw32-strip -o "$out/tuffet/tuffet.exe" "$out/build/tools/tuffet.exe"
du -b "$out/tuffet/tuffet.exe"

[ "${CHECK-}" != no ] || exit 0

[ -d "$native" ] || meson setup "$native" --werror >/dev/null
ninja -C "$native" --quiet tools/tuffet tests/toy
export WINEPREFIX="$out/wine" MESON_EXE_WRAPPER=/usr/lib/wine/wine64 WINEDEBUG=-all
# wine's services are started once: to start its own would take each command two seconds. They keep
# the output of the command that starts them open.
mkdir -p "$WINEPREFIX"
/usr/lib/wine/wineserver64 -p
trap '/usr/lib/wine/wineserver64 -k' EXIT
"$MESON_EXE_WRAPPER" wineboot </dev/null >/dev/null 2>&1
# By its own path it finds the model beside it.
"$MESON_EXE_WRAPPER" "$out/tuffet/tuffet.exe" run --temp 0 -n 30 </dev/null
python3 tests/cli/windows.py "$out/tuffet/tuffet.exe" "$native/tools/tuffet" "$native/tests/toy"
