#!/bin/sh
# Tune the compression level and the number of threads of a program, with nothing but a shell:
#   examples/shell_loop.sh [TRIALS]
# Smaller is better: the milliseconds to compress a file, and its kilobytes times 2. The study is a
# file, so the loop goes on where it was stopped. It needs the extras cli, studies and plot.
set -eu
trials=${1:-20}
folder=${2:-.}
export REGRETLESS_STORAGE="$folder/shell_loop.sqlite"

test -f "$REGRETLESS_STORAGE" || regretless create compress --budget "$trials" --direction minimize --space \
    '{"parameters": [{"name": "level", "type": "int", "low": 1, "high": 9},
                     {"name": "block", "type": "categorical", "choices": ["gzip", "bzip2", "xz"]}]}'
test -f "$folder/sample.txt" || awk 'BEGIN { for (i = 0; i < 60000; i++) print i, i * i, "line", i % 97 }' > "$folder/sample.txt"

while answer=$(regretless ask compress --within-budget --shell); do
    eval "$answer" # sets trial, params_level and params_block
    before=$(date +%s%N)
    size=$("$params_block" "-$params_level" --stdout "$folder/sample.txt" | wc -c)
    cost=$(( ($(date +%s%N) - before) / 1000000 + size / 512 ))
    echo "trial $trial: $params_block -$params_level: $cost"
    regretless tell compress "$trial" "$cost"
done
regretless best compress
regretless plot compress -o "$folder/shell_loop.png" --kind decisions
