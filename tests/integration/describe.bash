# The man page and the completions name every subcommand and every option of it, and nothing else.
#   usage: describe.bash CLEAVE BUILD
# shellcheck source=failures.bash
. "$(dirname "$0")/failures.bash"
cleave=$1
build=$2
commands=$("$cleave" --help | awk '/^  [a-z]/ { print $1 }')
[ "$(echo "$commands" | wc -l)" -ge 8 ] || fail "--help lists few commands"

# Of the page: the options of a subcommand, from its heading to the next.
in_page() {
    awk -v heading=".SS $1" '$0 == heading { inside = 1; next } /^[.]S/ { inside = 0 }
                             inside && after_tag && /^[.]B -|^[.]B \\-/ { print $2 } { after_tag = /^[.]TP/ }' "$build/cleave.1" |
        sed 's/\\//g' | sort
}
in_zsh() {
    awk -v heading="    $1)" '$0 == heading { inside = 1; next } /^    [a-z]*\)$/ { inside = 0 } inside' "$build/_cleave" |
        sed -n "s/^ *'\*\(-[^[]*\)\[.*/\1/p" | sort
}
complete() { # WORDS...: what bash offers for the last one
    # shellcheck source=/dev/null
    bash -c '. "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _cleave; printf "%s\n" "${COMPREPLY[@]}"' _ \
        "$build/cleave.bash" "$@" | sort
}

for command in $commands; do
    options=$("$cleave" "$command" --help | sed -n '/^options:/,/^example:/s/^  \(-[-a-z]*\).*/\1/p' | sort)
    [ "$(in_page "$command")" = "$options" ] || fail "the page's options of $command: $(in_page "$command")"
    [ "$(in_zsh "$command")" = "$options" ] || fail "zsh's options of $command: $(in_zsh "$command")"
    [ "$(complete cleave "$command" -)" = "$options" ] || fail "bash's options of $command: $(complete cleave "$command" -)"
done
[ "$(complete cleave "" | grep -v '^-')" = "$(echo "$commands" | sort)" ] || fail "bash's subcommands: $(complete cleave "")"
[ "$(complete cleave sim)" = simulate ] || fail "bash does not complete sim"
[ "$(complete cleave run --optimizer a | tr '\n' ' ')" = "adam adamw " ] || fail "bash does not complete the values of --optimizer"
[ "$(complete cleave run --model a)" = "" ] || fail "bash completes something else than files for --model"
sed -n '/^\.SS /s/.SS //p' "$build/cleave.1" | sort | cmp - <(echo "$commands" | sort) || fail "the page's subcommands"

# A page without mistakes, which has each line of the details.
if command -v groff >/dev/null; then
    groff -man -ww -Tutf8 "$build/cleave.1" 2>"$work/warnings" >"$work/page"
    [ ! -s "$work/warnings" ] || fail "groff: $(cat "$work/warnings")"
else
    echo "skipped: there is no groff to set the page with"
fi
if command -v zsh >/dev/null; then
    zsh -n "$build/_cleave" || fail "zsh can't read its completion"
else
    echo "skipped: there is no zsh to read its completion"
fi
finish
