# Every bench says what it is for and refuses what it does not understand, at once: bench_arguments.sh BUILD BENCH...
# shellcheck source=failures.bash
. "$(dirname "$0")/failures.bash"
build=$1
shift

# expect_help PROGRAM: its own name, and what more there is to know.
expect_help() {
    local word
    for word in --help -h; do
        timeout 20 "$1" $word >"$work/out" 2>"$work/err" || fail "$1 $word: exit $?: $(head -c 500 "$work/err")"
        grep -q "usage: .*$(basename "$1")" "$work/out" || fail "$1 $word: no usage"
        [ "$(wc -l <"$work/out")" -gt 2 ] || fail "$1 $word: nothing but usage"
        [ -s "$work/err" ] && fail "$1 $word: something on stderr"
    done
}

# expect_refused PATTERN PROGRAM WORDS...: exit 2, with PATTERN in what is said of it, before anything is measured.
expect_refused() {
    local pattern=$1 exit=0
    shift
    timeout 20 "$@" >"$work/out" 2>"$work/err" || exit=$?
    [ $exit = 2 ] || fail "$*: exit $exit instead of 2"
    grep -qF -- "$pattern" "$work/err" || fail "$*: no \"$pattern\" in: $(head -c 500 "$work/err")"
    [ ! -s "$work/out" ] || fail "$*: something on stdout: $(head -c 500 "$work/out")"
}

for program in "$@"; do
    expect_help "$program"
    case $program in
    */peers/run) ;; # a BUILD without SimGrid is 77
    *) expect_refused "" "$program" no-such-thing ;;
    esac
    case $program in
    */peers/run) run_peers=$program ;;
    */run) run=$program ;;
    */models) models=$program ;;
    */results) expect_refused "none of grid, scale" "$program" --parts nothing ;;
    */grid | */memory_curve) expect_refused "none of alexnet, resnet101" "$program" "$build/cleave" --models gpt2 ;;
    */staged) expect_refused "none of byte_gpt, deep" "$program" --models gpt2 ;;
    */sayable) expect_refused "none of mlp, lenet5" "$program" --models gpt3 ;;
    */ddp.py)
        expect_refused "none of alexnet, vgg16" "$program" "$build/cleave" rnntc:8
        expect_refused "more than 2" "$program" "$build/cleave" --steps 2
        ;;
    */once) expect_refused "gpt2:3: no such model" "$program" --models gpt2:3 ;;
    */accuracy | */found) expect_refused "gpt2_small" "$program" --models gpt2:3 ;;
    esac
done

bench() { echo "$build/tests/bench_$1"; }
expect_refused "gpt2: none of" "$(bench estimate)" 0.7 gpt2
expect_refused "gpt2_small" "$(bench estimate)" 0.7 gpt2
expect_refused "0.7s" "$(bench estimate)" 0.7s
expect_refused "none of 4, 16, 64" "$(bench estimate)" 0.7 alexnet 5
expect_refused "--check" "$(bench estimate)" --check
expect_refused "k80-16x4" "$(bench estimate)" --machine k80 1
expect_refused "stray" "$(bench estimate)" 1 alexnet 4 stray
expect_refused "1.5: a whole number" "$(bench estimate)" --seed 1.5 1
expect_refused "mlp, alexnet, resnet101" "$(bench search)" 1 gpt2_small
expect_refused "none of 2, 16, 64" "$(bench search)" 1 mlp 3
expect_refused "gpt2_small" "$(bench additive)" 1 gpt2
expect_refused "gpt2_small" "$(bench folded)" -m gpt2
expect_refused "-d" "$(bench folded)" -d
expect_refused "byte_gpt" "$(bench simulation)" machine.json gpt2 3
expect_refused "LSTM grid 2 x 40" "$(bench elimination)" 1024 gpt2
expect_refused "0 to 13" "$(bench scale)" 14
expect_refused "inception_v3" "$(bench step)" 1 gpt2
expect_refused "100 or 350" "$(bench delta)" 10 1 99 4
expect_refused "five" "$run" "$build" five
expect_refused "five" "$models" "$build" five
expect_refused "gpt2_small" "$models" "$build" 1 gpt2
expect_refused "five" "$run_peers" "$build" five
finish
