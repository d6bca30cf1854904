# Several machines, which this one plays (tests/netlab): ranks are on the hosts that were said, and a run whose hosts go
# away goes on on those that are left.  usage: several_hosts.sh CLEAVE TREE
# shellcheck source=command.bash
. "$(dirname "$0")/command.bash"
netlab=$tree/tests/netlab/netlab
reason=$("$netlab" -- true 2>&1) || { [ $? = 77 ] && echo "$reason" && exit 77; }
cd "$work" || exit 1

cat >cluster.json <<'END'
{"cleave_machine": 1, "name": "three-hosts",
 "kinds": {"core": {"memory": "8 GiB", "flops": "100 GFLOP/s", "memory_bandwidth": "12 GB/s", "launch": "2 us",
                    "efficiency": {"product": 0.7, "memory": 0.8}, "source": "data sheet"}},
 "node": {"count": 3, "devices": 1, "kind": "core"},
 "network": {"join": 0, "through": "switch", "bandwidth": "1 Gbit/s", "latency": "50 us"}}
END
steps=30
gpt=(--model "$models/byte_gpt.onnx" --batch 6 --optimizer adam)
train=("${gpt[@]}" --text "$tree/DESIGN.md" --layout three.layout.json --json)
expect_ok search "${gpt[@]}" --machine cluster.json -o three.layout.json
expect_ok run "${train[@]}" --steps $steps
cp out undisturbed
losses() { sed -n 's/^ *"loss": \[\(.*\)\],*$/\1/p' "$1" | tr -d ' ' | tr , '\n'; }
[ "$(losses undisturbed | wc -l)" = $steps ] || fail "no losses: $(cat out)"

# What runs beside the hosts.
declare -p cleave train steps >words
cat >inside.bash <<'END'
. ./words
# processes_of I: the ranks on host I, as "number-of-the-rank process-id".
processes_of() {
    local holder namespace process rank
    holder=$(set -- $NETLAB_HOLDERS && shift $((host - 1)) && echo "$1")
    namespace=$(readlink "/proc/$holder/ns/net")
    for process in $(pgrep -x cleave); do
        [ "$(readlink "/proc/$process/ns/net")" = "$namespace" ] || continue
        rank=$(tr '\0' '\n' <"/proc/$process/environ" | sed -n 's/^PMI_RANK=//p')
        echo "$rank $process"
    done | sort -n
}
ranks_of() { host=$1 && processes_of | cut -d ' ' -f 1 | tr '\n' ' '; }
# begin NAME WORDS...: until there are checkpoints.
begin() {
    name=$1
    shift
    "$cleave" run "${train[@]}" --checkpoint "$name" --checkpoint-every 4 "$@" >"$name.out" 2>"$name.err" &
    run=$!
    for ((i = 0; i < 600; i++)); do
        [ -e "$name/step-8" ] || [ -e "$name/step-12" ] && break
        sleep 0.05
    done
}
# lose I: its cable, and soon its ranks, which can't know.
lose() {
    ip link set "port$1" down
    host=$1 && processes_of | cut -d ' ' -f 2 | xargs -r kill -KILL
}
ended() {
    wait $run
    echo $? >"$name.exit"
}

note_ranks() { for host in 1 2 3; do echo "host$host: $(ranks_of $host)"; done >"$name.ranks"; }
printf 'host%d\n' 3 1 2 4 >four
begin spare --hosts four --steps $steps --machine cluster.json --restart 3 --stall-timeout 3
note_ranks
lose 2
ended
ip link set port2 up

export SLURM_JOB_NODELIST='host[1-3]' SLURM_TASKS_PER_NODE='1(x3)'
begin fewer --steps $steps --machine cluster.json --restart 3 --stall-timeout 3
note_ranks
lose 3
ended
END
timeout 200 "$netlab" --hosts 4 --rate 1gbit --once -- bash inside.bash >out 2>err || fail "on hosts: exit $?: $(cat out err)"

# Where ranks are: as the file says, and as Slurm does.
printf 'host1: 1 \nhost2: 2 \nhost3: 0 \n' | cmp -s - spare.ranks || fail "ranks of a file: $(cat spare.ranks spare.err)"
printf 'host1: 0 \nhost2: 1 \nhost3: 2 \n' | cmp -s - fewer.ranks || fail "ranks of Slurm: $(cat fewer.ranks fewer.err)"

# A spare host takes the place of one that is gone: the same layout, the same bits.
first=$(json_value spare.out first_step)
[ "$(cat spare.exit)" = 0 ] && grep -q "host2 is not there: .*; the others suffice: host3:1,host1:1,host4:1" spare.err ||
    fail "a spare host: exit $(cat spare.exit): $(cat spare.err)"
[ "${first:-0}" -gt 8 ] || fail "a spare host: began with step $first"
losses undisturbed | tail -n +"${first:-1}" | cmp -s - <(losses spare.out) || fail "a spare host: other losses"

# Fewer hosts, and a layout for them: the same training within rounding.
first=$(json_value fewer.out first_step)
[ "$(cat fewer.exit)" = 0 ] && grep -q "host3 is not there: .*; goes on on host1:1,host2:1 by fewer/on-2-hosts.layout.json" \
    fewer.err || fail "fewer hosts: exit $(cat fewer.exit): $(cat fewer.err)"
[ "${first:-0}" -gt 8 ] || fail "fewer hosts: began with step $first"
paste <(losses undisturbed | tail -n +"${first:-1}") <(losses fewer.out) |
    awk '{ d = $1 - $2; if (d < 0) d = -d; if (d > 1e-3 * $1) exit 1 } END { exit NR < 2 }' ||
    fail "fewer hosts: other losses: $(losses fewer.out | tail -n 1)"
finish
