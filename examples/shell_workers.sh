#!/usr/bin/env bash
# Independent workers that share a study on PostgreSQL, and need nothing but a shell.
#
#     pip install '.[cli,studies]'    # in a checkout
#     export REGRETLESS_STORAGE=postgresql://user@host/database
#     examples/shell_workers.sh create          # once
#     examples/shell_workers.sh work            # on as many machines, and as often, as you like
#     regretless show cache                       # at any time, from anywhere
#
# A worker asks with a key. If it does not hear the answer (the network, the server), it asks again
# with the same key and gets the same trial; to tell twice is harmless, too. So nothing is lost and
# nothing done twice, whatever happens in between.
set -u

STUDY=${STUDY:-cache}
BUDGET=${BUDGET:-30}
PAUSE=${PAUSE:-5}   # seconds to wait when the database is away

SPACE='{"parameters": [
    {"name": "size_mb", "type": "int", "low": 16, "high": 1024, "log": true},
    {"name": "policy", "type": "categorical", "choices": ["lru", "lfu"]}
]}'

# What you would measure: here, the hit rate of a cache in percent, less what its memory costs.
measure() {  # trial size policy
    awk -v seed="$1" -v size="$2" -v policy="$3" 'BEGIN {
        srand(seed)
        hits = 90 * (1 - exp(-size / 150)) + (policy == "lfu" ? 3 : 0)
        print hits - size / 40 + 2 * (rand() - 0.5)
    }'
}

# Exit codes say what happened: 5 is a spent budget, 6 a storage that cannot be reached.
insist() {
    local code
    while true; do
        "$@"
        code=$?
        [ "$code" -eq 6 ] || return "$code"
        sleep "$PAUSE"
    done
}

work() {
    local me round=0 answer code
    me=$(od -An -N8 -tx8 /dev/urandom | tr -d ' ')   # no other worker, ever, has this name
    while true; do
        round=$((round + 1))
        answer=$(insist regretless ask "$STUDY" --within-budget --shell --key "$me-$round")
        code=$?
        [ "$code" -eq 5 ] && return 0
        [ "$code" -eq 0 ] || return "$code"
        eval "$answer"   # sets trial, params_size_mb and params_policy
        insist regretless tell "$STUDY" "$trial" \
            "$(measure "$trial" "$params_size_mb" "$params_policy")" || return
    done
}

case "${1:-}" in
    create) regretless create "$STUDY" --space "$SPACE" --budget "$BUDGET" ;;
    work) work ;;
    *) sed -n '2,12s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
