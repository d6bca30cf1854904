# Layouts of many micro-batches are reported by three of them (simulator/step/few.h): in memory that all of them don't
# fit, with the step that the search has found; and what asks for each item is refused in one line where these don't.
# shellcheck source=command.bash
. "$(dirname "$0")/command.bash"

models=(--model "$models/llama_3_2_1b.json" --batch 512 --sequence 1024 --precision bf16
    --machine "$tree/configs/machines/h100-512x8.json" --optimizer adamw)
plan=$work/plan.layout.json
expect_ok search "${models[@]}" --devices 64 --method megatron-1f1b --stages 4 --tensor 8 --micro-batches 256 -o "$plan"
step=$(sed -n 's/^ *"predicted_step_seconds": \(.*\),$/\1/p' "$plan")

within() { # KIB WORDS...: the command, with so much address space
    local kib=$1
    shift
    (ulimit -v "$kib" && "$cleave" "$@" >"$work/out" 2>"$work/err")
}

# Item by item it would be 4 GiB.
within 1048576 simulate "${models[@]}" --layout "$plan" --json || fail "simulate: $(cat "$work/err")"
[ "$(json_value "$work/out" step_seconds)" = "$step" ] || fail "simulate: not $step s"
[ "$(json_value "$work/out" events_step_seconds)" = null ] || fail "simulate: links by readiness"
within 1048576 simulate "${models[@]}" --layout "$plan" || fail "simulate: $(cat "$work/err")"
grep -q 'not simulated of so many tasks' "$work/out" || fail "simulate does not say what it leaves out"
within 1048576 explain "${models[@]}" --layout "$plan" --json --quiet || fail "explain: $(cat "$work/err")"
[ "$(json_value "$work/out" step_seconds)" = "$step" ] || fail "explain: not $step s"

for words in "--trace $work/output.json" "--dump-tasks $work/output.dag" "--engine events"; do
    exit=0
    # shellcheck disable=SC2086
    within 1048576 simulate "${models[@]}" --layout "$plan" $words || exit=$?
    [ "$exit" = 1 ] || fail "simulate $words: exit $exit"
    [ "$(wc -l <"$work/err")" = 1 ] || fail "simulate $words: not one line on stderr"
    grep -qF '64 devices and 256 micro-batches, item by item' "$work/err" || fail "simulate $words: $(cat "$work/err")"
    [ -z "$(find "$work" -name 'output*')" ] || fail "simulate $words: an output was left"
done
finish
