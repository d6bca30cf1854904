# --hosts, and the allocation of a batch system: what is refused before anything is started, and what comes of hosts
# that are not there.  tests/integration/several_hosts.sh runs on some that are.
# shellcheck source=command.bash
. "$(dirname "$0")/command.bash"
cd "$work" || exit 1

tiny=(--model "$tree/tests/data/oracles/tiny_cnn.onnx" --batch 4)
cluster=$tree/configs/machines/p100-4x4.json # 4 nodes of 4 devices
expect_ok search "${tiny[@]}" --machine "$cluster" --devices 8 --method random --seed 1 -o plan.layout.json
run=(run "${tiny[@]}" --layout plan.layout.json)
printf 'alpha:4\nbeta:2\n' >few

expect_error 2 "few: its 2 hosts have 6 slots, but the layout is for 8 devices" "${run[@]}" --hosts few
expect_error 2 "few: beta has 2 slots, but node 1 of the machine p100-4x4 has 4 devices" \
    "${run[@]}" --hosts few --machine "$cluster"
printf 'alpha:8\n' >one
expect_error 2 "one: has 1 host, but the 8 devices of the machine p100-4x4 are on more nodes" \
    "${run[@]}" --hosts one --machine "$cluster"
printf 'alpha:4\nbeta:4 user=me\n' >strange
expect_error 2 'strange: line 2: "user=me" is not known' "${run[@]}" --hosts strange
expect_error 2 "nowhere" "${run[@]}" --hosts nowhere
SLURM_JOB_NODELIST='n[1-2]' SLURM_TASKS_PER_NODE='2(x2)' \
    expect_error 2 "Slurm's allocation: its 2 hosts have 4 slots" "${run[@]}"
SLURM_JOB_NODELIST='n[1-' expect_error 2 "Slurm's allocation: " "${run[@]}"
PBS_NODEFILE=$work/few expect_error 2 "few: its 2 hosts have 6 slots" "${run[@]}"

# A launcher that reaches no host, and one that reaches nothing but this machine under every name but one.
cat >agent <<'END'
#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
case $1 in beta) echo "beta: no such luck" >&2; exit 255 ;; esac
shift
exec sh -c "$*"
END
chmod +x agent
export HYDRA_LAUNCHER=ssh HYDRA_LAUNCHER_EXEC=$work/agent MPIR_CVAR_NOLOCAL=1
expect_ok search "${tiny[@]}" --machine "$machine" --method data-parallel -o two.layout.json
printf 'alpha\nbeta\n' >two
expect_error 1 "beta is not there: beta: no such luck" run "${tiny[@]}" --layout two.layout.json --hosts two
echo gamma >>two
expect_ok run "${tiny[@]}" --layout two.layout.json --hosts two
grep -q "beta is not there: .*; the others suffice: alpha:1,gamma:1" err || fail "no spare host: $(cat err)"
finish
