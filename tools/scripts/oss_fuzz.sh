#!/bin/sh
# Builds the fuzz targets by packaging/oss-fuzz/build.sh, with the base flags of OSS-Fuzz and this
# machine's clang, and runs each on its seeds: sh tools/scripts/oss_fuzz.sh [SECONDS]
# Each target then looks for more for SECONDS (default 10). Address sanitizer; needs Debian.
set -eu
cd "$(dirname "$0")/../.."
seconds=${1:-10}
sh tools/scripts/install.sh clang libcmocka-dev libevent-dev libjansson-dev meson ninja-build \
    pkgconf unzip zip
version=$(clang -dumpversion | cut -d. -f1)
sh tools/scripts/install.sh "libclang-rt-$version-dev"

export CC=clang CXX=clang++ SANITIZER=address LIB_FUZZING_ENGINE=-fsanitize=fuzzer
export CFLAGS='-O1 -fno-omit-frame-pointer -gline-tables-only -fsanitize=address
    -fsanitize-address-use-after-scope -fsanitize=fuzzer-no-link'
export CXXFLAGS="$CFLAGS" WORK="$PWD/build/oss-fuzz/work" OUT="$PWD/build/oss-fuzz/out"
export ASAN_OPTIONS=intercept_tls_get_addr=0
export LSAN_OPTIONS="suppressions=$PWD/tests/support/lsan.supp"
rm -rf "$OUT"
mkdir -p "$WORK" "$OUT"
sh -eu packaging/oss-fuzz/build.sh

for target in "$OUT"/fuzz_*; do
    [ -x "$target" ] || continue
    name=${target##*/}
    seeds=$WORK/seeds/$name
    rm -rf "$seeds"
    mkdir -p "$seeds"
    unzip -q "$OUT/${name}_seed_corpus.zip" -d "$seeds"
    # as OSS-Fuzz passes what fuzz_NAME.options says
    options=
    if [ -f "$target.options" ]; then
        options=$(sed -n "s|^dict = |-dict=$OUT/|p; s|^max_len = |-max_len=|p" "$target.options")
    fi
    echo "== $name: $(find "$seeds" -type f | wc -l) seeds"
    # shellcheck disable=SC2086 # words of options
    (cd "$WORK" && "$target" $options -max_total_time="$seconds" -print_final_stats=0 "$seeds" \
        >"$name.log" 2>&1) || {
        tail -30 "$WORK/$name.log" >&2
        exit 1
    }
done
echo "all passed"
