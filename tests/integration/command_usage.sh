# Help everywhere, its examples work as typed, and mistakes of usage are exit 2 and one line.
# shellcheck source=command.bash
. "$(dirname "$0")/command.bash"

expect_ok --help
for command in calibrate search simulate run show compare explain report diff sweep export; do
    grep -q "^  $command " "$work/out" || fail "--help does not list $command"
done
expect_narrow() { # COMMAND [OPTION]
    expect_ok "$@"
    awk 'length > 80' "$work/out" | grep . && fail "cleave $* has lines of more than 80 columns"
}
expect_narrow --help
expect_ok --version
for command in calibrate search simulate run show compare explain report diff sweep export; do
    expect_ok $command --help
    grep -q '^usage: cleave '$command "$work/out" || fail "$command --help has no usage"
    grep -q '^example:' "$work/out" || fail "$command --help has no example"
    expect_narrow $command --help
    expect_error 2 --no-such-flag $command --no-such-flag
    expect_error 2 --no-such-flag $command --no-such-flag=3
    expect_ok $command --no-such-flag --help
done

# The examples, copied from the help into a shell; the slow ones have tests of their own.
# That of diff is of two layouts that differ, which is exit 1.
for command in search simulate show explain report diff sweep; do
    expect_ok $command --help
    sed '1,/^example:/d' "$work/out" >"$work/example"
    exit=0
    (
        cd "$work" && ln -sfn "$tree/configs" configs && PATH="$(dirname "$cleave"):$PATH" \
            bash -e "$work/example" >"$work/example.out" 2>&1
    ) || exit=$?
    [ $exit = $([ $command = diff ] && echo 1 || echo 0) ] ||
        fail "the example of $command: exit $exit: $(cat "$work/example" "$work/example.out")"
    rm -f "$work"/*.layout.json
done

expect_error 2 "command is missing"
expect_error 2 '"serach"' serach
alexnet=(--model "$models/alexnet.onnx" --batch 32 --machine "$machine")
expect_error 2 --model search --batch 32 --machine "$machine" -o "$work/output"
expect_error 2 "-o" export --to torch "${alexnet[@]}" --layout plan.layout.json
expect_error 2 --batch search "${alexnet[@]}" --batch 32 -o "$work/output"
expect_error 2 '"many"' search --model m --machine m --batch many -o "$work/output"
expect_error 2 --batch search --model m --machine m --batch -3 -o "$work/output"
expect_error 2 --seed search "${alexnet[@]}" --seed 1.5 -o "$work/output"
expect_error 2 --time search "${alexnet[@]}" --time 5GB -o "$work/output"
expect_error 2 --memory-limit search "${alexnet[@]}" --memory-limit 5s -o "$work/output"
expect_error 2 --memory-limit search "${alexnet[@]}" --memory-limit "0 GiB" -o "$work/output"
expect_error 2 '"magic"' search "${alexnet[@]}" --method magic -o "$work/output"
expect_error 2 '"lion"' search "${alexnet[@]}" --optimizer lion -o "$work/output"
expect_error 2 --layout simulate "${alexnet[@]}"
expect_error 2 --layout simulate "${alexnet[@]}" --layout a --method single
expect_error 2 --tasks simulate "${alexnet[@]}" --tasks a.dag
expect_error 2 "--machine" diff a b --model m --page "$work/output"
expect_error 2 "nowhere" search "${alexnet[@]}" --time 1 -o "$work/nowhere/output"
expect_error 2 "$work: can't be written: it is a folder" search "${alexnet[@]}" -o "$work"
expect_error 2 "a file without a name can't be written" search "${alexnet[@]}" -o ''
expect_error 2 'none of "f32", "bf16", "fp16" and "mixed"' search "${alexnet[@]}" --reduce-precision bf8 -o "$work/output"
# Before any work is done for it: these would take minutes.
plan=$tree/configs/layouts/alexnet-32-two-cores.layout.json
mkfifo "$work/pipe"
expect_unwritable() { # WORDS..., the last of them the option
    local started=$SECONDS
    expect_error 2 "nowhere" "$@" "$work/nowhere/output"
    expect_error 2 "$work: can't be written: it is a folder" "$@" "$work"
    expect_error 2 "pipe: can't be written: it is no regular file" "$@" "$work/pipe"
    expect_error 2 "machine.json/output: can't be written" "$@" "$work/machine.json/output"
    [ $((SECONDS - started)) -lt 20 ] || fail "$*: took $((SECONDS - started)) s to see that it can't write"
}
echo >"$work/machine.json"
expect_unwritable search "${alexnet[@]}" --method mcmc --time 60 -o
expect_unwritable calibrate --model "$models/alexnet.onnx" --batch 32 --time 60 -o
expect_unwritable compare "${alexnet[@]}" --steps 1000 -o
expect_unwritable simulate "${alexnet[@]}" --layout "$plan" --trace
expect_unwritable run --model "$models/alexnet.onnx" --batch 32 --layout "$plan" --steps 1000 --save
expect_unwritable run --model "$models/alexnet.onnx" --batch 32 --layout "$plan" --steps 1000 --trace
expect_error 2 unexpected search stray "${alexnet[@]}" -o "$work/output"
expect_error 2 FILE show
finish
