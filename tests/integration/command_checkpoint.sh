# Checkpoints: what goes on from one is what would have been, whatever ended the run, and what is broken is told.
# shellcheck source=command.bash
. "$(dirname "$0")/command.bash"
cd "$work" || exit 1

gpt=(--model "$models/byte_gpt.onnx" --batch 2 --optimizer adam)
train=("${gpt[@]}" --text "$tree/DESIGN.md")
for plan in data-parallel layer-per-device; do
    expect_ok search "${gpt[@]}" --machine "$machine" --method "$plan" -o "$plan.layout.json"
done
# Shares of weights, states and updates, in micro-batches.
expect_ok search "${gpt[@]}" --machine "$machine" --zero 3 --micro-batches 2 --stages 1 -o sharded.layout.json

losses() { sed -n 's/^ *"loss": \[\(.*\)\],*$/\1/p' "$1" | tr -d ' ' | tr , '\n'; }
# same_losses FROM: those from the step on that the last run began with, bit for bit.
same_losses() {
    local first
    first=$(json_value out first_step)
    [ "$first" = "$1" ] || fail "began with step $first instead of $1"
    losses out >these
    losses whole | tail -n "$(wc -l <these)" | cmp -s - these || fail "other losses from step $first on"
}
near_losses() {
    losses out >these
    losses whole | tail -n "$(wc -l <these)" | paste these - |
        awk '{ d = $1 - $2; if (d < 0) d = -d; if (d > 1e-4 * $2) exit 1 }' || fail "other losses under $1: $(tr '\n' ' ' <these)"
}
newest_of() { echo "0 $(steps_of "$1" 2>/dev/null)" | awk '{ print $NF }'; }
steps_of() { find "$1" -maxdepth 1 -name 'step-*' | sed 's/.*step-//' | sort -n | tr '\n' ' '; }

# The undisturbed run, and one that goes on from step 4, under the same layout and under others.
expect_ok run "${train[@]}" --layout data-parallel.layout.json --steps 8 --json --save whole.safetensors
cp out whole
expect_ok run "${train[@]}" --layout data-parallel.layout.json --steps 4 --checkpoint ck --checkpoint-every 1 --keep 2 --json
[ "$(steps_of ck)" = "3 4 " ] || fail "kept $(steps_of ck)"
expect_error 2 "has checkpoints, the newest of step 4" run "${train[@]}" --checkpoint ck
expect_ok run "${train[@]}" --layout data-parallel.layout.json --steps 8 --from ck --json --save again.safetensors
same_losses 5
cmp -s whole.safetensors again.safetensors || fail "other parameters"
for layout in layer-per-device sharded; do
    expect_ok run "${train[@]}" --layout $layout.layout.json --steps 8 --from ck/step-4 --json
    near_losses $layout
    expect_ok run "${train[@]}" --layout $layout.layout.json --steps 4 --checkpoint ck.$layout --json
    expect_ok run "${train[@]}" --steps 8 --from ck.$layout --json # on one device
    near_losses "one device after $layout"
done

# Running statistics, momentum, and masters beside what is rounded.
goes_on() { # MODEL OPTION...
    local tiny=(--model "$tree/tests/data/oracles/$1" --batch 4)
    shift
    expect_ok search "${tiny[@]}" --machine "$machine" --devices 2 --method random --seed 5 -o tiny.layout.json
    tiny+=(--layout tiny.layout.json "$@")
    rm -rf tiny
    expect_ok run "${tiny[@]}" --steps 4 --save tiny.whole
    expect_ok run "${tiny[@]}" --steps 2 --checkpoint tiny
    expect_ok run "${tiny[@]}" --steps 4 --from tiny --save tiny.again
    cmp -s tiny.whole tiny.again || fail "$*: other parameters"
}
goes_on tiny_resnet.onnx --momentum 0.9
goes_on tiny_transformer.onnx --optimizer adam --precision bf16
# The learning rate goes on where it was, though the first run was to be shorter, and so does adamw.
goes_on tiny_cnn.onnx --optimizer adamw --lr-schedule cosine --warmup 1 --lr-steps 6 --lr-final 1e-4 --clip-norm 0.5

# Other numbers hold from there on, and are the next checkpoint's, whose own run they then are.
expect_ok run "${train[@]}" --layout data-parallel.layout.json --steps 5 --from ck --override --lr 0.002 --weight-decay 0.1 \
    --checkpoint changed --json
losses whole | sed -n 5p | grep -qxF "$(losses out)" || fail "other losses before the first update of --override"
expect_error 2 "another learning rate: 0.002, not 0.001" run "${train[@]}" --from changed
expect_ok run "${train[@]}" --layout data-parallel.layout.json --steps 6 --from changed --lr 0.002 --weight-decay 0.1 --json
losses whole | sed -n 6p | grep -qxF "$(losses out)" && fail "another rate changed nothing"

# What does not belong together is refused in a line.
expect_error 2 "another learning rate: 0.001, not 0.002 (--override goes on" run "${train[@]}" --from ck --lr 0.002
expect_error 2 "another weight decay: 0, not 0.1" run "${train[@]}" --from ck --weight-decay 0.1
expect_error 2 "another clipping norm: 0, not 1" run "${train[@]}" --from ck --clip-norm 1
expect_error 2 "another --no-decay: none, not *.bias" run "${train[@]}" --from ck --no-decay "*.bias"
expect_error 2 "--from names it" run "${train[@]}" --override
expect_error 2 "learning rate: constant, --warmup 0, not linear, --warmup 2, --lr-steps 9, --lr-final 0" \
    run "${train[@]}" --from ck --steps 9 --lr-schedule linear --warmup 2
expect_error 2 "another optimizer: adam, not adamw" run "${gpt[@]:0:4}" --text "$tree/DESIGN.md" --optimizer adamw --from ck
expect_error 2 "another optimizer: adam, not sgd" run "${gpt[@]:0:4}" --text "$tree/DESIGN.md" --from ck
expect_error 2 "another precision: f32, not bf16" run "${train[@]}" --precision bf16 --from ck
expect_error 2 "another model" run --model "$models/lenet5.onnx" --batch 16 --optimizer adam --from ck
expect_error 2 "with --seed 0" run "${train[@]}" --seed 1 --from ck
expect_error 2 "they were changed" run "${gpt[@]}" --text "$tree/CONTRIBUTING.md" --from ck
expect_error 2 "4 steps are done there already" run "${train[@]}" --steps 2 --from ck
expect_error 2 "has the weights itself" run "${train[@]}" --weights whole.safetensors --from ck
expect_error 2 "nowhere/ck: no folder" run "${train[@]}" --checkpoint nowhere/ck
expect_error 2 "whole: no folder" run "${train[@]}" --checkpoint whole
expect_error 2 "no.safetensors" run "${train[@]}" --weights no.safetensors --checkpoint output
expect_error 2 "--checkpoint says where" run "${train[@]}" --restart 2

# The newest that is whole is taken, and what is wrong with a newer one is told: cut anywhere, or a byte changed.
cp -r ck before
for file in parameters optimizer-1 optimizer-2 manifest; do
    name=$(cd ck/step-4 && echo $file.*)
    bytes=$(wc -c <"ck/step-4/$name")
    truncate -s $((RANDOM % bytes)) "ck/step-4/$name"
    expect_ok run "${train[@]}" --steps 4 --from ck
    grep -q "step-3; left out: ck/step-4/$name" out || fail "cut $name: $(cat out err)"
    cp "before/step-4/$name" "ck/step-4/$name"
done
printf 'x' | dd of=ck/step-4/parameters.safetensors bs=1 seek=500000 conv=notrunc 2>/dev/null
expect_error 2 "was changed" run "${train[@]}" --from ck/step-4
rm ck/step-3/optimizer-2.safetensors
ln -s ../step-4/optimizer-2.safetensors ck/step-3/
expect_error 2 "no checkpoint there is whole" run "${train[@]}" --from ck
touch before/step-3/mine # only what the manifest lists is ever deleted
expect_ok run "${train[@]}" --steps 6 --from before --checkpoint before --checkpoint-every 1 --keep 1
[ "$(steps_of before)" = "6 " ] || fail "kept $(steps_of before)"
[ -e before/dropping-3/mine ] || fail "a file of somebody else was deleted: $(find before)"

# begin WORDS...: a run in the background whose ranks are in $ranks once it has left a checkpoint in the folder `long`.
begin() {
    rm -rf long
    "$cleave" run "${train[@]}" --layout data-parallel.layout.json --steps 100000 --checkpoint long --checkpoint-every 2 "$@" \
        >out 2>err &
    run=$!
    for _ in $(seq 300); do
        [ "$(newest_of long)" = 0 ] || break
        sleep 0.1
    done
    ranks=$(pgrep -P "$(pgrep -P "$(pgrep -P $run)")")
}
# ended PATTERN: with exit 1 and one line.
ended() {
    exit=0
    wait $run || exit=$?
    [ $exit = 1 ] || fail "$1: exit $exit"
    [ "$(wc -l <err)" = 1 ] && grep -q "$1" err || fail "no \"$1\" in: $(cat err)"
    [ -z "$(find long -name '*.tmp*')" ] || fail "$1: something is left: $(find long)"
}
begin
kill -KILL "${ranks##*$'\n'}"
# Of a rank that sees the other gone, and one that is killed, the launcher tells of whichever it hears first.
ended "a rank died: \(Killed (signal 9)\|Aborted (signal 6)\)"
expect_ok run "${train[@]}" --steps "$(newest_of long)" --from long
begin --stall-timeout 1
kill -STOP "${ranks##*$'\n'}"
ended "stalled for 1 s"
begin --stall-timeout 0.5 # all of them: then nobody can say it but who started them
kill -STOP $ranks
ended "the ranks gave no sign for 5.5 s"
for delay in 0 0.1 0.25 0.4 0.6 0.9; do # whatever the ranks are at
    begin
    sleep $delay
    kill -TERM $run
    ended "ended by a signal after step [0-9]*, which long/step-[0-9]* has: --from long goes on"
    grep -q "long/step-$(newest_of long) " err || fail "not the newest: $(cat err)"
done

# While ranks are still being started: it ends, and leaves none of them.
tiny=(--model "$tree/tests/data/oracles/tiny_cnn.onnx" --batch 4)
expect_ok search "${tiny[@]}" --machine "$machine" --method data-parallel -o early.layout.json
for delay in 0.05 0.1 0.15 0.2 0.25 0.3; do
    for signals in TERM "INT TERM"; do
        "$cleave" run "${tiny[@]}" --layout "$work/early.layout.json" --steps 1000000 >out 2>err &
        run=$!
        # Before that it is a shell still, whose way to end is to remove the folder.
        until [ "/proc/$run/exe" -ef "$cleave" ]; do
            sleep 0.01
        done
        sleep $delay
        for signal in $signals; do
            kill -"$signal" $run 2>/dev/null
        done
        if ! timeout 30 tail --pid=$run -f /dev/null; then
            fail "$signals after $delay s: it goes on"
            kill -KILL $run
        fi
        exit=0
        wait $run || exit=$?
        [ $exit = 1 ] || [ $exit -gt 128 ] || fail "$signals after $delay s: exit $exit"
        for _ in $(seq 50); do
            pgrep -f "$work/early.layout" >/dev/null || break
            sleep 0.1
        done
        left=$(pgrep -f "$work/early.layout")
        [ -z "$left" ] || fail "$signals after $delay s: ranks are left"
        [ -z "$left" ] || kill -KILL $left
    done
done

# Killed twice, it starts again by itself.
"$cleave" run "${train[@]}" --layout data-parallel.layout.json --steps 8 --checkpoint again --checkpoint-every 1 --restart 9 \
    --json >out 2>err &
run=$!
for at in 2 4; do
    for _ in $(seq 300); do
        [ "$(newest_of again)" -ge $at ] && break
        sleep 0.02
    done
    pkill -KILL -P "$(pgrep -P "$(pgrep -P $run)")" 2>/dev/null
done
wait $run || fail "the run that starts again: exit $?: $(cat err)"
first=$(json_value out first_step)
[ "$first" -ge 3 ] || fail "killed twice, it began with step $first: $(cat err)"
same_losses "$first"

# A step whose loss is no number ends the run, and what made it is told.  (1e30 squared is infinite.)
expect_error 2 "the first one appears in step 2, forward of" run "${gpt[@]:0:4}" --steps 9 --lr 1e30
finish
