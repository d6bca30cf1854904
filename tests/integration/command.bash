# What the tests of the command share.  Sourced: command_NAME.sh CLEAVE TREE
# shellcheck source=failures.bash
. "$(dirname "$0")/failures.bash"
cleave=$1
tree=$2
models=$tree/configs/models
machine=$tree/configs/machines/two-cores.json

# expect_ok WORDS...: the command succeeds; its output is left in $work/out and $work/err.
expect_ok() {
    "$cleave" "$@" >"$work/out" 2>"$work/err" || fail "cleave $*: exit $?: $(cat "$work/err")"
}

# expect_error CODE PATTERN WORDS...: exit CODE, one line on stderr with PATTERN in it, nothing on stdout,
# and no file $work/output or a temporary one beside it.
expect_error() {
    local code=$1 pattern=$2 exit=0
    shift 2
    "$cleave" "$@" >"$work/out" 2>"$work/err" || exit=$?
    [ "$exit" = "$code" ] || fail "cleave $*: exit $exit instead of $code"
    [ "$(wc -l <"$work/err")" = 1 ] || fail "cleave $*: not one line on stderr: $(head -c 2000 "$work/err")"
    grep -qF -- "$pattern" "$work/err" || fail "cleave $*: no \"$pattern\" in: $(head -c 500 "$work/err")"
    [ ! -s "$work/out" ] || fail "cleave $*: something on stdout"
    [ -z "$(find "$work" -name 'output*')" ] || fail "cleave $*: an output was left"
}

# json_value FILE KEY: the number of a key on a line of its own.
json_value() {
    sed -n "s/^ *\"$2\": \([^,]*\),\{0,1\}$/\1/p" "$1" | head -n 1
}
