# Ctrl-C: the first stops a search with the best so far, baselines priced; the second ends it without a file.
# shellcheck source=command.bash
. "$(dirname "$0")/command.bash"

nmt=(--model "$models/nmt.onnx" --batch 64 --machine "$tree/configs/machines/k80-16x4.json" --threads 2
    --quiet --json)

# interrupt_search TIMES DEVICES FILE: sends the signal until the search, which starts from nothing, has got it so often.
# Its exit is left in $exit.  Before the search has begun a signal is not heard, as of any command in the background.
interrupt_search() {
    local times=$1 devices=$2 output=$3 sent=0
    "$cleave" search "${nmt[@]}" --devices "$devices" -o "$output" >"$work/out" 2>"$work/err" &
    local search=$!
    while [ "$sent" -lt "$times" ] && kill -0 "$search" 2>/dev/null; do
        sleep 0.2
        grep -q "^SigCgt:.*[2367abef]$" "/proc/$search/status" 2>/dev/null || [ "$sent" -gt 0 ] || continue
        kill -INT "$search" 2>/dev/null
        sent=$((sent + 1))
    done
    exit=0
    wait "$search" 2>/dev/null || exit=$?
}

interrupt_search 1 16 "$work/plan.layout.json"
[ "$exit" = 0 ] || fail "interrupted once: exit $exit: $(cat "$work/err")"
[ -s "$work/plan.layout.json" ] || fail "interrupted once, the search leaves no plan"
for baseline in data-parallel single layer-per-device one-weird-trick; do
    awk -v best="$(json_value "$work/out" step_seconds)" -v other="$(json_value "$work/out" "$baseline")" \
        'BEGIN { exit !(other + 0 > 0 && best + 0 > 0 && best + 0 <= other + 0) }' ||
        fail "interrupted once: the search gives $(cat "$work/out")"
done

interrupt_search 2 64 "$work/second.layout.json"
[ "$exit" = 130 ] || fail "interrupted twice: exit $exit instead of 130"
[ -z "$(find "$work" -name 'second*')" ] || fail "interrupted twice, the search left a file"
finish
