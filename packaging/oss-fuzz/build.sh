#!/bin/sh -eu
# Builds the fuzz targets as OSS-Fuzz asks: CC, CFLAGS, CXX, CXXFLAGS, SANITIZER,
# LIB_FUZZING_ENGINE, WORK and OUT are set, and the sources are the current folder. Each target gets
# its corpus as seeds, and its options. tools/scripts/oss_fuzz.sh sets them for a build without
# OSS-Fuzz.

sanitize=$SANITIZER
libraries=
case $SANITIZER in
memory)
    # The libraries of the system are not watched, and would seem to write nothing.
    libraries='-Djansson=disabled -Dlibevent=disabled'
    ;;
address | undefined) ;;
*) sanitize=none ;; # of coverage, CFLAGS alone
esac

rm -rf "$WORK/tuffet"
# shellcheck disable=SC2086 # words of options
meson setup "$WORK/tuffet" --buildtype=plain -Ddefault_library=static \
    -Dfuzz=true -Dfuzz_engine="$LIB_FUZZING_ENGINE" -Db_sanitize="$sanitize" -Db_lundef=false \
    -Dthreads=posix -Dmpi=disabled -Dlibcurl=disabled -Dlibedit=disabled $libraries
targets=$(ninja -C "$WORK/tuffet" -t targets all |
    sed -n 's|^\(tests/fuzz/fuzz_[a-z0-9_]*\): .*|\1|p')
# shellcheck disable=SC2086
ninja -C "$WORK/tuffet" $targets

for target in $targets; do
    name=${target##*/fuzz_}
    cp "$WORK/tuffet/$target" "$OUT/"
    rm -f "$OUT/fuzz_${name}_seed_corpus.zip"
    zip -q -X -j "$OUT/fuzz_${name}_seed_corpus.zip" "tests/fuzz/corpus/$name/"*
    if [ -f "packaging/oss-fuzz/fuzz_$name.options" ]; then
        cp "packaging/oss-fuzz/fuzz_$name.options" "$OUT/"
    fi
done
cp packaging/oss-fuzz/*.dict "$OUT/"
