#!/bin/sh
# The classes for Kotlin, their tests and the example: kotlin.sh SOURCE JNI PROGRAM TOY FOLDER
#
# JNI is the library that they call. FOLDER keeps the compiled classes, which take kotlinc half a
# minute, for the next run. Java checks how the library uses JNI, and prints what is wrong.
set -eu
source=$1 jni=$2 program=$3 toy=$4 folder=$5
kotlin=$source/bindings/kotlin
for name in kotlinc java; do
    command -v $name >/dev/null || {
        echo "skipped: there is no $name"
        exit 77
    }
done

jar=$folder/kotlin.jar
if [ ! -f "$jar" ] || [ -n "$(find "$kotlin" -newer "$jar" -name '*.kt')" ]; then
    rm -f "$jar"
    kotlinc "$kotlin/tuffet" "$kotlin/examples" "$kotlin/tests" -include-runtime -d "$jar"
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
java -Xcheck:jni -Dtuffet.jni="$jni" -cp "$jar" Test "$program" "$toy" \
    "$source/models/demo/stories2M.gguf" "$work" "$kotlin/README.md" \
    "$kotlin/examples/Generate.kt" >"$work/out" 2>&1 || failed=$?
cat "$work/out"
if grep -E 'WARNING|FATAL' "$work/out" >/dev/null; then
    echo "Java complains"
    exit 1
fi
exit "${failed:-0}"
