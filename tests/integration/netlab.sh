# tests/netlab: hosts are apart, see each other, keep their rate and give the results of one machine; and
# nothing is left, however a run ended.  usage: netlab.sh CLEAVE TREE PYTHON3
# shellcheck source=command.bash
. "$(dirname "$0")/command.bash"
python=$3
netlab=$tree/tests/netlab/netlab
reason=$("$netlab" -- true 2>&1) || { [ $? = 77 ] && echo "$reason" && exit 77; }

# Ranks write which network namespaces they and process 1, the switch, are in to $work/NAME.*.
cat >"$work/note" <<'END'
readlink /proc/self/ns/net >"$1.$(hostname)"
readlink /proc/1/ns/net >"$1.switch"
END
links() { ip -o link | sed 's/^[0-9]*: \([^@:]*\).*/\1/' | grep -E '^(bridge|port[0-9]+)$'; }
links_before=$(links)
mounts_before=$(grep -c ' /etc/hosts ' /proc/self/mountinfo)

# who_is_in NAME: processes in the namespaces that $work/NAME.* say, and names of such in /run/netns.
who_is_in() {
    local namespaces
    namespaces=$(sed 's/.*\[\(.*\)\]/\1/' "$work/$1".* | paste -sd '|')
    find /proc -maxdepth 3 -path '*/ns/net' -lname 'net:*' -printf '%p %l\n' 2>/dev/null | grep -E "\[($namespaces)\]"
    find /run/netns -maxdepth 1 -printf '%p %i\n' 2>/dev/null | grep -E " ($namespaces)\$"
}

# expect_nothing_left NAME: two seconds later at most.
expect_nothing_left() {
    local tries
    [ -s "$work/$1.host2" ] || fail "$1: host2 said nothing"
    for ((tries = 0; tries < 20; tries++)); do
        [ -n "$(who_is_in "$1")" ] || break
        sleep 0.1
    done
    [ -z "$(who_is_in "$1")" ] || fail "after $1 there is left: $(who_is_in "$1")"
    [ "$(links)" = "$links_before" ] || fail "after $1 there are links: $(links)"
    [ "$(grep -c ' /etc/hosts ' /proc/self/mountinfo)" = "$mounts_before" ] || fail "after $1: /etc/hosts is mounted"
}

# A host has its own processors where there are enough.
timeout 20 "$netlab" --hosts 2 -- sh -c "grep Cpus_allowed_list /proc/self/status >$work/processors.\$(hostname)" ||
    fail "two hosts: exit $?"
if [ "$(nproc)" -ge 2 ]; then
    cmp -s "$work/processors.host1" "$work/processors.host2" &&
        fail "both hosts are on the same processors: $(cat "$work/processors.host1")"
fi

# Success and failure: the command's exit code.
timeout 20 "$netlab" --hosts 3 -- sh "$work/note" "$work/success" || fail "three hosts: exit $?"
[ "$(cat "$work"/success.* | sort -u | wc -l)" = 4 ] || fail "not four namespaces: $(cat "$work"/success.*)"
cat "$work"/success.* | grep -qF "$(readlink /proc/self/ns/net)" && fail "a host is in this machine's own namespace"
expect_nothing_left success
timeout 20 "$netlab" -- sh -c "sh $work/note $work/failure; exit 3" >"$work/out" 2>&1
exit=$?
[ $exit = 3 ] || fail "exit $exit instead of 3: $(cat "$work/out")"
expect_nothing_left failure

# Killed, in a way that it can see and in one that it can't.
for signal in TERM KILL; do
    "$netlab" -- sh -c "sh $work/note $work/$signal; exec sleep 60" 2>"$work/err" &
    running=$!
    for ((tries = 0; tries < 100; tries++)); do
        [ -s "$work/$signal.host1" ] && [ -s "$work/$signal.host2" ] && break
        sleep 0.05
    done
    [ -n "$(who_is_in $signal)" ] || fail "$signal: nothing runs that could be left"
    kill -$signal $running
    wait $running 2>/dev/null
    exit=$?
    [ $exit = $((128 + $(kill -l $signal))) ] || fail "$signal: exit $exit"
    expect_nothing_left $signal
done

# Hosts have names and see each other and nothing else.  What each sends to the other at once is never quicker than the
# rate; how much slower it may be is a matter of timing, which tests/bench/collectives measures.
cat >"$work/exchange.py" <<'END'
import os, socket, sys, threading, time
BYTES, RATE = 8 << 20, 100e6 / 8
here = os.uname().nodename
there = {"host1": "host2", "host2": "host1"}[here]
assert sorted(os.listdir("/sys/class/net")) == ["eth0", "lo"], os.listdir("/sys/class/net")
assert len(open("/proc/net/route").readlines()) == 2, "more routes than that of the link"
server = socket.create_server((here, 4000))

def send():
    for attempt in range(100):
        try:
            connection = socket.create_connection((there, 4000))
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
    connection.recv(1) # the other side's clock runs
    connection.sendall(bytes(BYTES))

threading.Thread(target=send).start()
connection, peer = server.accept()
assert peer[0] == socket.gethostbyname(there), peer
received, begin = 0, time.monotonic()
connection.sendall(b"!")
while received < BYTES:
    part = len(connection.recv(1 << 18))
    assert part > 0, "the connection was closed"
    received += part
with open(f"{sys.argv[1]}.{here}", "w") as share: # a file each: what ranks print at once may come out mixed
    print(received / (time.monotonic() - begin) / RATE, file=share)
END
timeout 60 "$netlab" --rate 100mbit -- "$python" "$work/exchange.py" "$work/share" >"$work/out" 2>&1 ||
    fail "$(cat "$work/out")"
awk '{ ok += $1 > 0 && $1 < 1.03 } END { exit ok != 2 }' "$work"/share.host[12] ||
    fail "shares of the rate: $(cat "$work"/share.*)"

# Two hosts learn what two ranks on one host do, to the bit.
tiny=(--model "$tree/tests/data/oracles/tiny_transformer.onnx" --batch 4)
expect_ok search "${tiny[@]}" --machine "$machine" --method random --seed 4 -o "$work/plan.layout.json"
results() { sed -n '/"loss"/p; /"bytes_between"/,/^  \]/p' "$1"; }
expect_ok run "${tiny[@]}" --layout "$work/plan.layout.json" --steps 3 --json
results "$work/out" >"$work/alone"
timeout 60 "$netlab" --rate 1gbit -- "$cleave" run "${tiny[@]}" --layout "$work/plan.layout.json" --steps 3 --json \
    >"$work/out" 2>"$work/err" || fail "cleave run on two hosts: $(cat "$work/err")"
results "$work/out" >"$work/apart"
grep -q loss "$work/alone" && cmp "$work/alone" "$work/apart" || fail "on hosts: $(cat "$work/apart")"

# Usage, and what can't be.
expect_exit() {
    local code=$1 pattern=$2 exit=0
    shift 2
    "$@" >"$work/out" 2>&1 || exit=$?
    [ $exit = "$code" ] && [ "$(wc -l <"$work/out")" = 1 ] && grep -qF -- "$pattern" "$work/out" ||
        fail "$*: exit $exit: $(cat "$work/out")"
}
expect_exit 2 "--hosts 9" "$netlab" --hosts 9 -- true
expect_exit 2 "--rate 1" "$netlab" --rate 1 -- true
expect_exit 2 "no command" "$netlab" --hosts 2 --
expect_exit 77 "no namespaces" setpriv --bounding-set -all --inh-caps -all "$netlab" -- true
"$netlab" --help | grep -q -- --ranks-per-host || fail "--help"
finish
