# A layout as a plan for a framework: what it says, what is refused, and what it costs.
# shellcheck source=command.bash
. "$(dirname "$0")/command.bash"

alexnet=(--model "$models/alexnet.onnx" --batch 32)
plan=$tree/configs/layouts/alexnet-32-two-cores.layout.json

# --- a layout that torch says as it is: the plan has its words, and what is read back is that layout
expect_ok export --to torch "${alexnet[@]}" --layout "$plan" --machine "$machine" --strict \
    -o "$work/plan.json" --read-back "$work/back.json"
grep -qF 'exported' "$work/out" || fail "export does not price the plan: $(cat "$work/out")"
grep -qF '"features.0": {"operator": "/features/features.0/Conv"' "$work/plan.json" || fail "no module features.0"
grep -qF '"classifier.6": {"operator": "/classifier/classifier.6/Gemm", "type": "Gemm", "axes": ["c"], "input": ["S1"], "output": ["P"]' \
    "$work/plan.json" || fail "the product cut by what it sums is not said so: $(cat "$work/plan.json")"
diff <(grep '"split"' "$plan") <(grep '"split"' "$work/back.json") || fail "another layout is read back"

grep -q '^memory of the fullest device: plan [0-9.]* MiB, exported [0-9.]* MiB$' "$work/out" || fail "no memory: $(cat "$work/out")"
sed 's/"memory": "8 GiB"/"memory": "100 MiB"/' "$machine" >"$work/narrow.json"
expect_ok export --to torch "${alexnet[@]}" --layout "$plan" --machine "$work/narrow.json" -o "$work/plan.json"
grep -q '^memory .*, for which it has no room' "$work/out" || fail "it fits into 100 MiB: $(cat "$work/out")"

# --- JSON: the step of what is read back is that of simulate
expect_ok export --to torch "${alexnet[@]}" --layout "$plan" --machine "$machine" --json -o "$work/plan.json"
exported=$(sed -n 's/.*"exported": {"step_seconds": \([^,]*\),.*/\1/p' "$work/out")
expect_ok simulate "${alexnet[@]}" --layout "$work/back.json" --machine "$machine" --json
[ "$exported" = "$(json_value "$work/out" step_seconds)" ] || fail "export prices $exported, simulate something else"

# --- what a framework can't say is listed and priced, or refused
sed 's#"/features/features.6/Conv": {"split": {[^}]*}#"/features/features.6/Conv": {"split": {"h": 2}#' "$plan" >"$work/rows.json"
expect_ok export --to torch "${alexnet[@]}" --layout "$work/rows.json" --machine "$machine" -o "$work/plan.json"
grep -q '^/features/features.6/Conv *h *.* ms$' "$work/out" || fail "rows are not listed with their price: $(cat "$work/out")"
expect_error 2 'torch can'"'"'t have it as it is: 1 thing is lost, the first being h of /features/features.6/Conv' \
    export --to torch "${alexnet[@]}" --layout "$work/rows.json" --strict -o "$work/output"
sed 's#"/classifier/classifier.6/Gemm": {"split": {[^}]*}, "devices": \[0, 1\]#"/classifier/classifier.6/Gemm": {"split": {"k": 3}, "devices": [0, 1, 2]#;
     s#"devices": 2,#"devices": 3,#' "$plan" >"$work/uneven.json"
expect_error 2 'can'"'"'t have it as it is' export --to torch "${alexnet[@]}" --layout "$work/uneven.json" --strict -o "$work/output"

# --- wrong words
expect_error 2 '--to tensorflow: torch, jax, megatron and torchtitan are known' \
    export --to tensorflow "${alexnet[@]}" --layout "$plan" -o "$work/output"
expect_error 2 'was made for another model' \
    export --to torch --model "$models/lenet5.onnx" --batch 32 --layout "$plan" -o "$work/output"

# --- launchers train transformers
expect_error 2 'megatron trains transformers, and this has no attention by heads' \
    export --to megatron "${alexnet[@]}" --layout "$plan" -o "$work/output"

# --- search --for finds what is exported as it is, for jax all operators on all devices: the step that export prices
lenet=(--model "$models/lenet5.onnx" --batch 64)
k80=$tree/configs/machines/k80-16x4.json
for framework in torch jax; do
    expect_ok search "${lenet[@]}" --machine "$k80" --devices 4 --for $framework --quiet -o "$work/for.json"
    [ $framework = torch ] || ! grep '"split"' "$work/for.json" | grep -qvE '"devices": \[[0-3], [0-3], [0-3], [0-3]\]' ||
        fail "--for $framework leaves devices out: $(cat "$work/for.json")"
    expect_ok export --to $framework "${lenet[@]}" --layout "$work/for.json" --machine "$k80" --strict -o "$work/plan.json"
    grep -qF ': 1.00 x the plan' "$work/out" || fail "--for $framework finds what is not run so: $(cat "$work/out")"
done

# --- also where updates are sharded, and blocks of an axis of 6 on 4 devices would be the best
expect_ok search "${lenet[@]}" --machine "$k80" --devices 4 --for torch --zero 1 --quiet -o "$work/for.json"
expect_ok export --to torch "${lenet[@]}" --layout "$work/for.json" --machine "$k80" --strict -o "$work/plan.json"

# --- and what it finds, however little it looks, is no worse than any baseline as the framework would run that
for framework in torch jax; do
    expect_ok search "${lenet[@]}" --machine "$k80" --devices 4 --for $framework --method mcmc --proposals 1 --quiet --json \
        -o "$work/for.json"
    found=$(json_value "$work/out" step_seconds)
    for method in data-parallel single layer-per-device one-weird-trick zero-1; do
        expect_ok search "${lenet[@]}" --machine "$k80" --devices 4 --method $method --quiet -o "$work/baseline.json"
        expect_ok export --to $framework "${lenet[@]}" --layout "$work/baseline.json" --machine "$k80" --quiet --json -o "$work/plan.json"
        exported=$(sed -n 's/.*"exported": {"step_seconds": \([^,]*\),.*/\1/p' "$work/out")
        awk "BEGIN { exit !($found <= $exported) }" || fail "--for $framework finds $found, and $method takes $exported"
    done
done

# --- shared-out state is as it is asked for, where the framework has it
for framework in torch jax; do
    for options in '--zero 0' '--zero 1' '--method zero-1'; do
        # shellcheck disable=SC2086
        expect_ok search "${lenet[@]}" --machine "$k80" --devices 4 --for $framework $options --quiet -o "$work/for.json"
        expect_ok export --to $framework "${lenet[@]}" --layout "$work/for.json" --machine "$k80" -o "$work/plan.json"
        grep -qF ': 1.00 x the plan' "$work/out" || fail "$options finds what $framework does not run so: $(cat "$work/out")"
        said=$(grep -qF '"update": "sharded"' "$work/for.json" && echo 1 || echo 0)
        [ "$said" = $([ "$options" = '--zero 0' ] && echo 0 || echo 1) ] || fail "$options: $(cat "$work/for.json")"
    done
    expect_error 2 "$framework can't say them: a weight is gathered once" search "${lenet[@]}" --machine "$k80" --devices 4 \
        --for $framework --zero 3 -o "$work/output"
done

# --- on some devices of a torus, the links of which lead to others
expect_ok search "${lenet[@]}" --machine "$tree/configs/machines/tpu4-4x4x4.json" --devices 4 --for jax --time 1 --quiet -o "$work/for.json"
expect_error 2 '--for jax goes without stages' search "${lenet[@]}" --machine "$k80" --devices 4 --for jax --stages 2 -o "$work/output"
expect_error 2 '--for torch goes without --tensor' search "${lenet[@]}" --machine "$k80" --devices 4 --for torch --tensor 2 \
    -o "$work/output"

# --- a table that is tied to the head is of both stages that read it
gpt2=(--model "$models/gpt2.json" --batch 8 --sequence 64 --machine "$k80")
expect_ok search "${gpt2[@]}" --devices 4 --for torch --stages 2 --time 1 --quiet -o "$work/for.json"
expect_ok export --to torch "${gpt2[@]}" --layout "$work/for.json" --strict -o "$work/plan.json"
[ "$(grep -o '"parameters": \[[^]]*\]' "$work/plan.json" | grep -c '"transformer.wte.weight"')" = 2 ] ||
    fail "the table is not of two stages: $(cat "$work/plan.json")"

# --- of a decoder's table that is tied to the head in one stage, PyTorch can't put the gradient off
sed 's/"d_model": 1024/"d_model": 32/; s/_heads": 16/_heads": 4/; s/_dim": 4096/_dim": 64/; s/_layers": 12/_layers": 2/; s/50265/96/' \
    "$models/bart_large.json" >"$work/bart.json"
bart=(--model "$work/bart.json" --batch 8 --sequence 16 --machine "$k80")
expect_ok search "${bart[@]}" --devices 2 --for torch --stages 2 --micro-batches 4 --schedule 1f1b --time 5 --quiet -o "$work/for.json"
sed -i 's/"1f1b"/"zb-h1"/' "$work/for.json"
expect_ok export --to torch "${bart[@]}" --layout "$work/for.json" -o "$work/plan.json"
grep -qF 'a table that its stage reads elsewhere' "$work/out" || fail "its gradient is put off: $(cat "$work/out")"

# --- on nodes that are not all alike, where a layout folds but the machine does not
rtx="$tree/configs/machines/rtx-4x8.json"
expect_ok search "${lenet[@]}" --machine "$rtx" --devices 16 --for torch --method data-parallel --quiet -o "$work/for.json"
expect_ok simulate "${lenet[@]}" --machine "$rtx" --layout "$work/for.json"
expect_ok export --to torch "${lenet[@]}" --layout "$work/for.json" --machine "$rtx" --strict -o "$work/plan.json"

# --- what is not looked for is said, and how it would be
not_looked_for='Stages, micro-batches and recomputation were not looked for: --for torch does where an option'
for framework in torch jax; do
    expect_ok search "${lenet[@]}" --machine "$k80" --devices 4 --for $framework --method data-parallel --quiet -o "$work/for.json"
    said=$(grep -cF "$not_looked_for" "$work/out" || true)
    [ "$said" = $([ $framework = torch ] && echo 1 || echo 0) ] || fail "--for $framework: $(cat "$work/out")"
    expect_error 3 'any layout of the whole batch at once holds' search "${lenet[@]}" --machine "$k80" --devices 4 --for $framework \
        --memory-limit 100KiB -o "$work/output"
    said=$(grep -c 'with --micro-batches, --stages or --recompute more is looked for' "$work/err" || true)
    [ "$said" = $([ $framework = torch ] && echo 1 || echo 0) ] || fail "--for $framework: $(cat "$work/err")"
done

# --- in stages, of one device and of two, what is found for torch is exported as it is, too
for stages in 4 2; do
    expect_ok search "${lenet[@]}" --machine "$k80" --devices 4 --for torch --stages $stages --quiet -o "$work/for.json"
    expect_ok export --to torch "${lenet[@]}" --layout "$work/for.json" --machine "$k80" --strict -o "$work/plan.json"
    grep -qF ': 1.00 x the plan' "$work/out" || fail "--stages $stages finds what is not run so: $(cat "$work/out")"
    [ "$(grep -c '"begins"' "$work/plan.json")" = $stages ] || fail "not in $stages stages: $(cat "$work/plan.json")"
done
expect_error 2 '--for mpi: torch and jax are known' search "${lenet[@]}" --machine "$k80" --devices 4 --for mpi -o "$work/output"
finish
