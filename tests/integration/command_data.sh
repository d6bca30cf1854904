# `cleave run --data`: many samples in files, shuffled or not, are the same under every layout and after a checkpoint.
# shellcheck source=command.bash
. "$(dirname "$0")/command.bash"
cd "$work" || exit 1

python3 "$tree/tests/integration/make_samples.py" . 70
lenet=(--model "$models/lenet5.onnx" --batch 16)
arrays=input=x.npy,targets=y.npy
for method in data-parallel random; do
    expect_ok search "${lenet[@]}" --machine "$machine" --method $method --seed 3 -o $method.layout.json
done
train=(run "${lenet[@]}" --lr 0.05 --json --data "$arrays")
losses() { sed -n 's/^ *"loss": \[\(.*\)\],*$/\1/p' "$1" | tr -d ' ' | tr , '\n'; }
near() { # FILE WHAT: its losses are those of the last run, but for the order of sums
    losses out | paste - "$1" | awk '{ d = $1 - $2; if (d < 0) d = -d; if (d > 1e-4 * $2) exit 1 }' ||
        fail "other losses under $2: $(losses out | tr '\n' ' ') instead of $(tr '\n' ' ' <"$1")"
}

# 70 samples: 4 steps of 16 an epoch, and 6 samples are left out of it.
expect_ok "${train[@]}" --epochs 2
losses out >plain
[ "$(wc -l <plain)" = 8 ] || fail "two epochs of 4 steps make $(wc -l <plain)"
[ "$(json_value out samples) $(json_value out steps_of_epoch)" = "70 4" ] || fail "$(cat out)"
expect_ok run "${lenet[@]}" --data "$arrays" --steps 1
grep -q '^samples  *70, 4 steps of 16 an epoch$' out || fail "no samples in: $(cat out)"
grep -q '^samples left out of an epoch  *6, which fill no batch$' out || fail "nothing is left out: $(cat out)"

# The same numbers in another format; another order, in every epoch.
expect_ok run "${lenet[@]}" --lr 0.05 --json --data xy.safetensors --epochs 2
losses out | cmp -s - plain || fail "safetensors and arrays differ"
expect_ok "${train[@]}" --epochs 3 --shuffle --save whole.safetensors --log whole.csv
losses out >shuffled
without_times() { cut -d , -f 1-5,8-9 "$1"; }
[ "$(head -n 3 whole.csv | tail -n 1 | cut -d , -f 1-4)" = "2,0.5,$(sed -n 2p shuffled | xargs printf %.9g),0.05" ] ||
    fail "not step 2 of 4 an epoch in: $(cat whole.csv)"
cmp -s <(head -n 1 plain) <(head -n 1 shuffled) && fail "nothing was shuffled"
expect_ok "${train[@]}" --epochs 3 --shuffle --seed 0
losses out | cmp -s - shuffled || fail "the same seed shuffles differently"

# With a rate of nothing, an epoch of 64 samples has one sum of losses in any order: each sample comes once.
python3 "$tree/tests/integration/make_samples.py" . 64
still=(run "${lenet[@]}" --lr 1e-30 --json --data "$arrays" --epochs 2)
mean() { losses out | head -n $(($1 * 4)) | tail -n 4 | awk '{ sum += $1 } END { printf "%.5f", sum / 4 }'; }
expect_ok "${still[@]}"
in_order="$(mean 1) $(mean 2)"
expect_ok "${still[@]}" --shuffle
[ "$(mean 1) $(mean 2)" = "$in_order" ] || fail "an epoch has other samples: $(mean 1) $(mean 2), not $in_order"
losses out | sort -u | wc -l | grep -qx 8 || fail "two epochs in one order: $(losses out | tr '\n' ' ')"
python3 "$tree/tests/integration/make_samples.py" . 70

# A layout changes nothing, and a run goes on in the middle of an epoch.
for layout in data-parallel random; do
    expect_ok "${train[@]}" --epochs 3 --shuffle --layout $layout.layout.json
    near shuffled $layout
done
# So does its log, of which step 6 was written and is done again.
expect_ok "${train[@]}" --steps 6 --shuffle --checkpoint ck --checkpoint-every 5 --log ck.csv
expect_ok "${train[@]}" --epochs 3 --shuffle --from ck/step-5 --log ck.csv
cmp -s <(without_times whole.csv) <(without_times ck.csv) || fail "another log: $(cat ck.csv)"
expect_ok "${train[@]}" --epochs 3 --shuffle --from ck --save again.safetensors
losses out | cmp -s - <(tail -n 6 shuffled) || fail "other losses after a checkpoint: $(losses out | tr '\n' ' ')"
cmp -s whole.safetensors again.safetensors || fail "other parameters after a checkpoint"
expect_error 2 "made with --shuffle" "${train[@]}" --epochs 3 --from ck
set_label() { # FILE VALUE: y.npy with another last label
    python3 -c 'import sys; data = open("y.npy", "rb").read()
open(sys.argv[1], "wb").write(data[:-4] + bytes([int(sys.argv[2]), 0, 0, 0]))' "$1" "$2"
}
set_label z.npy "$(((1 + $(tail -c 4 y.npy | od -An -tu1 -N1)) % 10))"
expect_error 2 "they were changed" run "${lenet[@]}" --data input=x.npy,targets=z.npy --shuffle --steps 9 --lr 0.05 --from ck

# A file of 4 GiB, of which little is read: 1,300,000 pictures of zeros, which take no room on the disk.
python3 - <<'EOF'
n = 1300000
for name, descr, shape, size in ("big.npy", "<f4", (n, 1, 28, 28), 4 * 784), ("few.npy", "|u1", (n,), 1):
    header = repr({"descr": descr, "fortran_order": False, "shape": shape}).encode()
    with open(name, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
        file.truncate(10 + len(header) + n * size)
EOF
expect_ok run "${lenet[@]}" --data input=big.npy,targets=few.npy --shuffle --steps 3 --json
resident=$(sed -n 's/.*"rss_peak_bytes": \[\([0-9]*\).*/\1/p' out)
[ "$resident" -lt 300000000 ] || fail "of a file of 4 GiB $resident bytes are resident"

# What does not fit.
mkdir few fewer
python3 "$tree/tests/integration/make_samples.py" few 20
python3 "$tree/tests/integration/make_samples.py" fewer 12
set_label ten.npy 10
cp xy.safetensors bad.npy
bad=(run "${lenet[@]}" --steps 1 --data)
expect_error 2 "20 samples of targets, but 70 of input" "${bad[@]}" input=x.npy,targets=few/y.npy
expect_error 2 "(or more in the first dimension)" "${bad[@]}" input=fewer/x.npy,targets=y.npy
expect_error 2 "has no tensor targets" "${bad[@]}" input=x.npy
expect_error 2 "is not NAME=FILE.npy" "${bad[@]}" x.npy
expect_error 2 "nowhere.npy: No such file" "${bad[@]}" input=nowhere.npy,targets=y.npy
expect_error 2 "not a file of a NumPy array" "${bad[@]}" input=bad.npy,targets=y.npy
expect_error 2 "is 10, not in 0..9" "${bad[@]}" input=x.npy,targets=ten.npy
expect_error 2 "--epochs needs data with samples" run "${lenet[@]}" --epochs 1
expect_error 2 "--epochs and --steps say the same" "${train[@]}" --steps 1 --epochs 1
expect_error 2 "is no log of a training" run "${lenet[@]}" --log y.npy
expect_error 2 "--shuffle needs data" run "${lenet[@]}" --shuffle
finish
