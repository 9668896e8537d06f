#!/bin/sh
# Measures a board, phone or computer, and writes one page to send:
# sh board.sh [-f] [-o PAGE] [PROGRAM]
# The page tells the CPU, memory, kernel, whether the logits have the bits that they must have, and
# speed and heat. It has no name of a host or user, and no serial number.
#
#   -f        fast: the model that ships instead of the shapes, and seconds instead of minutes
#   -o PAGE   the file to write (tuffet-board.md)
#   PROGRAM   tuffet: by default the one beside this script, or else in PATH
#
# Takes half an hour on a board, less on a computer. Needs sh and awk, and disk for the largest
# shape that fits in memory, at most 1.3 GB in TMPDIR or else /tmp. Nothing is installed or sent.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
fast="" page=tuffet-board.md
while getopts fo: option; do
    case $option in
    f) fast=yes ;;
    o) page=$OPTARG ;;
    *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))

# The logits of 64 tokens: model, bits, cache, hash. docs/boards.md has the same table.
hashes='stories2M floats i8 0xfb2d17ff2e83b9d7
stories2M floats f16 0xb0b0d80ca52a53aa
smollm2-135m 8 i8 0xcfba5bfebd18ff98
smollm2-135m 4 i8 0x8b65681d4c67c53f'

# Shapes, and the megabytes of their files in 8 and in 4 bits.
shapes='smollm2-135m 136 84
qwen2.5-0.5b 498 323
qwen3-0.6b 600 380
gemma-3-1b 1010 650
llama-3.2-1b 1240 770'

fail() {
    echo "board.sh: $1" >&2
    exit 1
}

say() { echo "board.sh: $1" >&2; }

find_program() {
    [ $# = 0 ] || {
        echo "$1"
        return
    }
    [ ! -x "$here/tuffet" ] || {
        echo "$here/tuffet"
        return
    }
    command -v tuffet || fail "there is no tuffet beside this script or in PATH: name it"
}

# The model that ships: beside the program, installed, or in the sources.
find_model() {
    beside=$(dirname "$program")
    for path in "$beside/stories2M.gguf" "$here/stories2M.gguf" \
        "$beside/../share/tuffet/stories2M.gguf" "$here/../../models/demo/stories2M.gguf"; do
        [ ! -r "$path" ] || {
            echo "$path"
            return
        }
    done
    fail "stories2M.gguf is neither beside the program nor installed"
}

program=$(find_program "$@")
"$program" --version >/dev/null || fail "$program does not run"
model=$(find_model)
threads=$("$program" --version | sed -n '1s/.*, \([0-9]*\) threads.*/\1/p')
folder=${TMPDIR:-/tmp}
seconds=120 prompt=128 generated=32 depth=1024 runs=3
[ -z "$fast" ] || seconds=2 prompt=32 generated=8 depth=128 runs=1

# ---- the machine

# first FILE...: the first line of the first file that can be read, without NULs
first() {
    for file; do
        if [ -r "$file" ]; then
            tr -d '\000' <"$file" | sed -n 1p
            return
        fi
    done
}

# The cores of each kind, for example "4 x Cortex-A76"; or the CPU's name.
cpu_name() {
    awk -F ': *' '
        BEGIN {
            n = split("d03 A53 d04 A35 d05 A55 d07 A57 d08 A72 d09 A73 d0a A75 d0b A76 d0c N1 " \
                "d0d A77 d41 A78 d44 X1 d46 A510 d47 A710 d48 X2 d4d A715 d4e X3 d80 A520 " \
                "d81 A720 d82 X4 d85 X925 d87 A725", x, " ")
            for (i = 1; i < n; i += 2)
                arm[x[i]] = (x[i + 1] == "N1" ? "Neoverse-" : "Cortex-") x[i + 1]
        }
        /^model name/ { name = $2 }
        /^CPU implementer/ { by = $2 }
        /^CPU part/ {
            part = substr($2, 3)
            kind = by == "0x41" && part in arm ? arm[part] : "implementer " by " part " $2
            if (!count[kind]++) order[++kinds] = kind
        }
        END {
            if (!kinds) print (name ? name : "unknown")
            for (i = 1; i <= kinds; i++)
                printf "%s%d x %s%s", (i == 1 ? "" : ", "), count[order[i]], order[i],
                    (i == kinds ? "\n" : "")
        }' /proc/cpuinfo || echo unknown
}

megabytes() {
    awk -v name="$1:" '$1 == name { printf "%d\n", $2 / 1000 * 1.024 }' /proc/meminfo 2>/dev/null
}

disk_left() { df -Pk "$folder" 2>/dev/null | awk 'NR == 2 { printf "%d\n", $4 * 1.024 / 1000 }'; }

# The highest clock of a CPU in MHz: cpuinfo_max_freq or scaling_cur_freq.
clock() {
    cat /sys/devices/system/cpu/cpu[0-9]*/cpufreq/"$1" 2>/dev/null |
        awk '$1 > most { most = $1 } END { print most ? int(most / 1000) : "-" }'
}

# The highest temperature of a sensor that the kernel shows.
temperature() {
    cat /sys/class/thermal/thermal_zone*/temp 2>/dev/null |
        awk '$1 > most && $1 < 150000 { most = $1 }
            END { if (most) printf "%.0f\n", most / 1000; else print "-" }'
}

throttled() { vcgencmd get_throttled 2>/dev/null | sed 's/.*=//' || true; }

machine() {
    echo "| | |"
    echo "|---|---|"
    board=$(first /proc/device-tree/model /sys/class/dmi/id/product_name)
    [ ! -x /system/bin/getprop ] || board=$(/system/bin/getprop ro.product.model)
    echo "| machine | ${board:-unknown} |"
    echo "| CPU | $(cpu_name), highest clock $(clock cpuinfo_max_freq) MHz, governor $(
        first /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor | grep . || echo unknown) |"
    echo "| memory | $(megabytes MemTotal) MB, $(megabytes MemAvailable) MB left |"
    echo "| kernel | $(uname -srm) |"
    echo "| load before | $(cut -d ' ' -f 1-3 /proc/loadavg 2>/dev/null || echo unknown) |"
    echo "| tuffet | $("$program" --version | sed -n 1p) |"
    "$program" bench "$model" -p 8 -n 8 -r "$runs" |
        sed -n 's/^\(.* threads\{0,1\}\): memory read \(.*\)$/| limits, \1 | memory \2 |/p'
}

# ---- the bits

# hash_rows MODEL BITS CACHE HASH: a row for each of the CPU's kernels
hash_rows() {
    case $1 in
    stories2M) set -- "$@" "$model" ;;
    *) set -- "$@" "--shape=$1" --layers=2 "--bits=$2" ;;
    esac
    name=$1 bits=$2 cache=$3 want=$4
    shift 4
    "$program" bench "$@" --kv "$cache" --hash >"$work" || say "bench --hash $* failed"
    # as texts: some awks take 0x... for numbers, and round them
    awk -v row="| $name | $bits | $cache" -v want="$want" '
        { print row " | " $1 " | " $3 " | " ($3 "" == want "" ? "the same" : "**DIFFERENT**") " |" }
        END { if (NR == 0) print row " | - | - | **no hash** |" }' "$work"
}

bits() {
    echo "| model | bits | cache | kernels | hash | against the table |"
    echo "|---|---|---|---|---|---|"
    echo "$hashes" | while read -r name bits cache hash; do
        hash_rows "$name" "$bits" "$cache" "$hash"
    done
}

# ---- speed

# speed_rows NAME BITS OPTION...: a row of the table for each number of threads
speed_rows() {
    name=$1 bits=$2
    shift 2
    say "measuring $name ($bits)"
    if ! "$program" bench "$@" >"$work"; then
        echo "| $name | $bits | | | failed | | |"
        return
    fi
    awk -v row="| $name | $bits" '
        $1 == "prefill" { prompt = $6 " (" $7 ")" }
        $1 == "decode" {
            share = NF > 10 ? $10 " %" : "-"
            print row " | " $3 " | " $4 " | " prompt " | " $6 " (" $7 ") | " share " |"
        }' "$work"
}

# The megabytes that a shape of this size needs, and has not: nothing if there is room.
lacks() {
    left=$(megabytes MemAvailable) disk=$(disk_left) need=$(($1 * 11 / 10 + 150))
    [ "${left:-$need}" -ge "$need" ] || echo "needs $need MB of memory, $left are left"
    [ "${disk:-$need}" -ge "$need" ] || echo "needs $need MB in $folder, $disk are left"
}

# shape NAME BITS MEGABYTES
shape() {
    why=$(lacks "$3" | head -n 1)
    if [ "$why" ]; then
        echo "| $1 | $2 | | | skipped: $why | | |"
        return
    fi
    speed_rows "$1" "$2" --shape "$1" --bits "$2" -p "$prompt" -n "$generated" -r "$runs"
    speed_rows "$1" "$2" --shape "$1" --bits "$2" -d "$depth" -p "$prompt" -n "$generated" -r 1 \
        -t "$threads"
}

speed() {
    echo "| model | bits | after | threads | prompt of $prompt (range) | generating (range) |" \
        "share |"
    echo "|---|---|---:|---:|---:|---:|---:|"
    speed_rows stories2M floats "$model" -p "$prompt" -n "$generated" -r "$runs"
    speed_rows stories2M floats "$model" -d 256 -p "$prompt" -n "$generated" -r "$runs" \
        -t "$threads"
    [ -z "$fast" ] || return 0
    echo "$shapes" | while read -r name eight four; do
        shape "$name" 8 "$eight"
        shape "$name" 4 "$four"
    done
}

# ---- heat

# heat_row SECONDS: with the speed in $work
heat_row() {
    echo "| $1 | $(temperature) | $(clock scaling_cur_freq) | $(throttled | grep . || echo -) | $(
        awk '$1 == "prefill" { p = $6 } $1 == "decode" { d = $6 }
            END { print (p ? p : "-") " | " (d ? d : "-") " |" }' "$work")"
}

heat() {
    echo "| seconds | °C | MHz | throttled | prompt | generating |"
    echo "|---:|---:|---:|---|---:|---:|"
    : >"$work"
    heat_row 0
    set -- --shape smollm2-135m
    [ -z "$fast$(lacks 136)" ] || set -- "$model"
    start=$(date +%s) now=0 rows=0 last=""
    say "heat: $seconds seconds"
    while [ "$now" -lt "$seconds" ]; do
        "$program" bench "$@" -t "$threads" -p 256 -n 64 -r "$runs" >"$work" || fail "bench failed"
        now=$(($(date +%s) - start))
        last=$(heat_row "$now")
        rows=$((rows + 1))
        [ "$rows" -gt 1 ] || echo "$last"
    done
    [ "$rows" = 1 ] || echo "$last"
}

# ---- llama.cpp

# The shapes are files of tuffet's own kind; the model that ships is an ordinary GGUF file.
llama() {
    if ! command -v llama-bench >/dev/null; then
        echo "llama-bench is not installed."
        return
    fi
    say "llama-bench"
    llama-bench -m "$model" -p "$prompt" -n "$generated" -t "1,$threads" -r "$runs" -o md \
        2>/dev/null |
        grep '^|' || echo "llama-bench failed."
}

# ---- the page

work=$(mktemp "$folder/tuffet-board-XXXXXX")
trap 'rm -f "$work"' EXIT
trap 'exit 130' INT TERM
{
    echo "# $(first /proc/device-tree/model | grep . || cpu_name)"
    echo
    echo "By board.sh${fast:+ -f} on $(date -u +%Y-%m-%d)."
    echo
    machine
    printf '\n## The bits of logits\n\n'
    bits
    printf '\n## Speed\n\nTokens/s, the median and the range.\n\n'
    speed
    printf '\n## Heat\n\nWith %s threads at work; the first and the last measurement.\n\n' \
        "$threads"
    heat
    printf '\n## llama.cpp\n\nOn stories2M, tokens/s.\n\n'
    llama
} >"$page.part"
mv "$page.part" "$page"
say "$page is the page to send"
! grep -q '\*\*' "$page" || fail "logits differ from the table: the page has the rows"
