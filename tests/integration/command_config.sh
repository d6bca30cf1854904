# Language models by their config.json: every command takes one, with the length of the texts.
# shellcheck source=command.bash
. "$(dirname "$0")/command.bash"

llama=$tree/tests/data/oracles/family_llama.json
given=(--model "$llama" --batch 4 --sequence 6)

expect_ok show "$llama" --batch 4 --sequence 6 --onnx "$work/llama.onnx"
grep -q '^4512 parameters' "$work/out" || fail "not 4512 parameters: $(cat "$work/out")"
hash=$(sed -n 's/.*, hash \([0-9a-f]*\),.*/\1/p' "$work/out")
expect_ok show "$work/llama.onnx" --batch 4
grep -q "hash $hash" "$work/out" || fail "the written file is another model"

expect_ok search "${given[@]}" --machine "$machine" --proposals 10 --quiet -o "$work/plan.layout.json"
expect_ok simulate "${given[@]}" --machine "$machine" --layout "$work/plan.layout.json"
expect_ok explain "${given[@]}" --machine "$machine" --layout "$work/plan.layout.json"
expect_ok run "${given[@]}" --layout "$work/plan.layout.json" --steps 2 --quiet
expect_ok compare "${given[@]}" --machine "$machine" --steps 2 --proposals 10 --quiet
expect_ok calibrate --model "$llama" --batch 4 --sequence 6 --time 1 --devices 1 --quiet -o "$work/here.json"

# Many micro-batches, on many devices or of operators in many pieces, take no more memory: all lowered one by one, these would take
# 12 GiB each.
expect_within() { # KIB STATUS WORDS MODEL MACHINE OPTION...
    (ulimit -v "$1" && "$cleave" search --model "$models/$4.json" --machine "$tree/configs/machines/$5.json" --precision bf16 \
        --optimizer adam --quiet "${@:6}" -o "$work/large.layout.json") >"$work/out" 2>&1
    [ $? = "$2" ] || fail "search of $4 ends with another status than $2: $(cat "$work/out")"
    grep -q "$3" "$work/out" || fail "no $3 in: $(cat "$work/out")"
}
if ! ldd "$cleave" | grep -q lib[at]san; then # which map more
    stages=(exaone_4_32b h100-512x8 --sequence 4096 --batch 1024 --devices 64 --method megatron-1f1b)
    expect_within 1500000 0 '256 micro-batches, 8 stages 1f1b' "${stages[@]}"
    expect_within 1500000 3 'does not fit in 20.0 GiB of memory per device: it needs [0-9.]* GiB$' "${stages[@]}" --memory-limit 20GiB
    expect_within 4000000 0 '^found (auto)' gpt_neox_20b a100-40-128x8 --sequence 2048 --batch 512 --devices 16
fi

# What does not go together.
expect_error 2 "--sequence N" show "$llama" --batch 4
expect_error 2 "--sequence N" search --model "$llama" --batch 4 --machine "$machine" -o "$work/no.layout.json"
expect_error 2 "--sequence 6 goes with" show "$models/lenet5.onnx" --batch 4 --sequence 6
expect_error 2 "--onnx goes with" show "$models/lenet5.onnx" --batch 4 --onnx "$work/no.onnx"
expect_error 2 "--onnx goes with" show "$machine" --onnx "$work/no.onnx"
[ ! -e "$work/no.onnx" ] || fail "a refused --onnx leaves a file"
sed 's/"mlp_bias"/"mlp_bent"/' "$llama" >"$work/bent.json"
expect_error 2 '$.mlp_bent' show "$work/bent.json" --batch 4 --sequence 6
expect_error 2 '$.mlp_bent' run --model "$work/bent.json" --batch 4 --sequence 6
expect_error 2 "model_type" run --model "$machine" --batch 4 --sequence 6
finish
