# `cleave run --validate`: held-out samples are looked at as a trained model is used, under any layout, and the training
# knows nothing of it.
# shellcheck source=command.bash
. "$(dirname "$0")/command.bash"
cd "$work" || exit 1

mkdir held
python3 "$tree/tests/integration/make_samples.py" . 160
python3 "$tree/tests/integration/make_samples.py" held 40
lenet=(--model "$models/lenet5.onnx" --batch 16)
train=(run "${lenet[@]}" --lr 0.1 --momentum 0.9 --data input=x.npy,targets=y.npy --shuffle)
validate=(--validate input=held/x.npy,targets=held/y.npy)
losses() { sed -n 's/^ *"loss": \[\(.*\)\],*$/\1/p' "$1"; }
column() { tail -n +2 "$2" | cut -d , -f "$1"; }

# It learns what it was not shown, 40 samples in batches of 16, and its log says when it was looked at.
expect_ok "${train[@]}" --epochs 4 --json --save plain.safetensors
losses out >plain
expect_ok "${train[@]}" "${validate[@]}" --epochs 4 --json --save with.safetensors --log log.csv
losses out | cmp -s - plain || fail "validation changes the losses"
cmp -s plain.safetensors with.safetensors || fail "validation changes the parameters"
[ "$(json_value out validation_samples)" = 40 ] || fail "not 40 samples: $(cat out)"
awk -v a="$(json_value out validation_accuracy)" 'BEGIN { exit !(a > 0.9) }' || fail "not learned: $(cat log.csv)"
[ "$(column 9 log.csv | grep -n . | cut -d : -f 1 | tr '\n' ' ')" = "10 20 30 40 " ] || fail "not once an epoch: $(cat log.csv)"
value=$(json_value out validation_loss)

# The same by other means: the outputs of a pass forward with what was saved, in three batches, and sums in Python.
python3 - "$cleave" "$models/lenet5.onnx" "$value" <<'EOF' || fail "another loss by hand"
import array, json, math, struct, subprocess, sys

cleave, model, value = sys.argv[1:]
x = open("held/x.npy", "rb").read()[-40 * 784 * 4 :]
labels = array.array("i", open("held/y.npy", "rb").read()[-160:])
total = 0
for first in 0, 16, 24:  # the last batch has eight once more
    shape = [16, 1, 28, 28]
    header = json.dumps({"input": {"dtype": "F32", "shape": shape, "data_offsets": [0, 16 * 3136]}}).encode()
    open("b.safetensors", "wb").write(struct.pack("<Q", len(header)) + header + x[first * 3136 : (first + 16) * 3136])
    subprocess.run([cleave, "run", "--model", model, "--batch", "16", "--forward", "--weights", "with.safetensors", "--data",
                    "b.safetensors", "--save", "o.safetensors", "--quiet"], check=True, stdout=subprocess.DEVNULL)
    scores = array.array("f", open("o.safetensors", "rb").read()[-640:])
    for i in range(8 if first == 24 else 0, 16):
        row = scores[10 * i : 10 * i + 10]
        total += math.log(sum(math.exp(s) for s in row)) - row[labels[first + i]]
sys.exit(abs(total / 40 - float(value)) > 1e-5 * (1 + float(value)))
EOF

# Under other layouts: parts of the batch, parts of layers, and weights in shares with micro-batches.
near() { # WHAT: the last validation gave $value
    awk -v a="$(json_value out validation_loss)" -v b="$value" 'BEGIN { d = a - b; exit !(d < 1e-3 * b && d > -1e-3 * b) }' ||
        fail "$1: $(json_value out validation_loss) instead of $value"
}
gpt=(--model "$models/byte_gpt.onnx" --batch 4 --optimizer adam)
head -c 3000 "$tree/COPYING" >held.txt
text=(run "${gpt[@]}" --text "$tree/COPYING" --validate held.txt --steps 4 --lr 3e-3 --json)
expect_ok "${text[@]}"
[ "$(json_value out validation_samples)" = 46 ] || fail "2,999 bytes in sequences of 64 are $(json_value out validation_samples)"
value=$(json_value out validation_loss)
expect_ok search "${gpt[@]}" --machine "$machine" --zero 3 --micro-batches 2 --stages 1 -o sharded.layout.json
expect_ok search "${gpt[@]}" --machine "$machine" --method random --seed 4 -o random.layout.json
for layout in sharded random; do
    expect_ok "${text[@]}" --layout $layout.layout.json
    near $layout
done

# Running statistics: where nothing is learned they come to be those of the one batch that there is, and validation of
# that batch comes to the loss of the training, from elsewhere.
oracle=$tree/tests/data/oracles/tiny_resnet
still=(run --model "$oracle.onnx" --batch 4 --lr 1e-30 --data "$oracle.io.safetensors" --json --log still.csv)
still+=(--validate "$oracle.io.safetensors" --validate-every 1)
expect_ok search --model "$oracle.onnx" --batch 4 --machine "$machine" --method random --seed 5 -o resnet.layout.json
expect_ok "${still[@]}" --steps 150 --layout resnet.layout.json
paste -d ' ' <(column 3 still.csv) <(column 8 still.csv) | awk '
    { d = $1 - $2; if (d < 0) d = -d }
    NR == 1 && d < 1e-3 { exit 1 }
    NR == 150 { last = d }
    END { exit !(NR == 150 && last < 1e-5) }' || fail "running statistics: $(sed -n '2p;$p' still.csv)"

# After a checkpoint the same; and what does not fit.
expect_ok "${train[@]}" "${validate[@]}" --steps 15 --checkpoint ck --log ck.csv
expect_ok "${train[@]}" "${validate[@]}" --epochs 4 --from ck --log ck.csv
grep -v '^15,' log.csv | cut -d , -f 1-5,8-9 | cmp -s - <(grep -v '^15,' ck.csv | cut -d , -f 1-5,8-9) || fail "another log: $(cat ck.csv)"
mkdir few && python3 "$tree/tests/integration/make_samples.py" few 9
expect_error 2 "(or more in the first dimension)" "${train[@]}" --validate input=few/x.npy,targets=few/y.npy
expect_error 2 "has no tensor targets" "${train[@]}" --validate input=held/x.npy
expect_error 2 "go with samples that are trained on" run "${lenet[@]}" "${validate[@]}"
expect_error 2 "goes with a training" run "${lenet[@]}" --forward --data input=x.npy "${validate[@]}"
finish
