#!/usr/bin/env bash
# A sweep of the simulator in four parts under a batch engine: GNU parallel over ssh, Slurm, or both.
#
#     cargo build --release -p overlock-cli && experiments/sweep-parallel.sh [parallel|slurm] [FOLDER]
#
# It makes the sweep once as a whole, and once in parts, one of which is killed after its first run and
# taken up by the same engine. It then merges the parts and compares what both print, byte for byte.
# Exit code: 0 if they are equal and the engine repeated what was killed, 1 if not, 2 if it could not try.
#
# Needs from Debian: parallel and openssh-server; or slurm-wlm (brings slurmctld, slurmd and munge), and
# root. The daemons are its own, with configuration, keys and state in a temporary folder and on ports of
# their own: they leave the machine's ssh and Slurm alone, and end with the script.
# FOLDER keeps the parts and both tables. Environment: OVERLOCK (target/release/overlock), LISTS (what to
# sweep), PORT of sshd or slurmctld (20022).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
overlock=$(realpath -m "${OVERLOCK:-$here/../target/release/overlock}")
parts=4
port=${PORT:-20022}
read -ra lists <<<"${LISTS:---in sim:e5-2699v3 --workload kernbench --locks queued,hybrid --cpus 45,72 --runs 3 --seconds 0.02}"
pids=()

fail() { echo "sweep-parallel.sh: $*" >&2; exit 2; }
wrong() { echo "sweep-parallel.sh: $*" >&2; exit 1; }
need() { for tool; do command -v "$tool" >/dev/null || fail "there is no $tool; install it"; done; }

end() {
    local pid
    for pid in "${pids[@]}"; do
        kill "$pid" 2>/dev/null || true
        while kill -0 "$pid" 2>/dev/null; do sleep 0.1; done
    done
    rm -rf "$work"
}

# Waits until the command succeeds; the last argument says what that means.
until_ready() { # WHAT COMMAND...
    local what=$1
    shift
    for _ in {1..300}; do
        if "$@" >/dev/null 2>&1; then return; fi
        sleep 0.1
    done
    tail -n 3 "$work"/*.log >&2
    fail "$what"
}

# The whole sweep prints what the merged parts are to print. The first line names command and machine.
show() { # FOLDER
    "$overlock" bench "${lists[@]}" --json --sweep "$1" | tail -n +2
}

# What each job runs; the engine adds the number of the part. The first time, part 1 is killed after its
# first run, as if the machine had failed.
write_job() { # FOLDER
    cat >"$work/job" <<JOB
#!/bin/bash
part=\$1
"$overlock" bench ${lists[*]@Q} --sweep "$1" --shard \$part/$parts >/dev/null &
if [ \$part = 1 ] && [ ! -e "$work/killed" ]; then
    touch "$work/killed"
    until [ -s "$1/part-1-of-$parts.jsonl" ]; do sleep 0.002; done
    kill -KILL \$!
fi
wait \$!
JOB
    chmod +x "$work/job"
}

over_ssh() { # FOLDER OF THE PARTS
    need parallel ssh ssh-keygen
    local sshd=/usr/sbin/sshd
    [ -x "$sshd" ] || fail "there is no $sshd; install openssh-server"
    if [ "$(id -u)" = 0 ]; then mkdir -p /run/sshd; fi
    ssh-keygen -q -t ed25519 -N '' -f "$work/host_key"
    ssh-keygen -q -t ed25519 -N '' -f "$work/key"
    cp "$work/key.pub" "$work/authorized"
    cat >"$work/sshd.conf" <<CONF
Port $port
ListenAddress 127.0.0.1
HostKey $work/host_key
PidFile none
AuthorizedKeysFile $work/authorized
PasswordAuthentication no
PermitRootLogin prohibit-password
StrictModes no
UsePAM no
CONF
    echo "[127.0.0.1]:$port $(cut -d' ' -f1,2 "$work/host_key.pub")" >"$work/known"
    "$sshd" -D -f "$work/sshd.conf" -E "$work/sshd.log" &
    pids+=($!)
    local ssh=(ssh -F none -p "$port" -i "$work/key" -o "UserKnownHostsFile=$work/known" -o BatchMode=yes)
    until_ready "sshd on port $port does not answer" "${ssh[@]}" 127.0.0.1 true
    # Two at a time on the machine 127.0.0.1; the log knows what failed.
    local engine=(parallel --will-cite --ssh "${ssh[*]}" --sshlogin 2/127.0.0.1 --joblog "$work/jobs")
    "${engine[@]}" "$work/job {}" ::: $(seq "$parts") && wrong "no part failed, though one was killed"
    cat "$work/jobs"
    "${engine[@]}" --resume-failed "$work/job {}" ::: $(seq "$parts") || wrong "a part failed again"
}

under_slurm() {
    need slurmctld slurmd munged sbatch sinfo
    [ "$(id -u)" = 0 ] || fail "slurmd starts jobs as root; run this as root"
    local node
    node=$(hostname -s)
    mkdir -m 700 "$work/state" "$work/spool"
    # munged insists on folders that only their owner can write.
    mkdir -m 755 "$work/munge"
    chmod 755 "$work"
    (umask 077 && head -c 1024 /dev/urandom >"$work/munge/key")
    munged --foreground --force --key-file="$work/munge/key" --socket="$work/munge/socket" \
        --pid-file="$work/munge/pid" --log-file="$work/munge/log" --seed-file="$work/munge/seed" \
        >"$work/munged.log" 2>&1 &
    pids+=($!)
    until_ready "munged makes no credentials" munge --socket="$work/munge/socket" --no-input
    cat >"$work/slurm.conf" <<CONF
ClusterName=sweep
SlurmctldHost=$node(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$work/munge/socket
CredType=cred/munge
SlurmctldPort=$port
SlurmdPort=$((port + 1))
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
NodeName=$node NodeAddr=127.0.0.1 CPUs=$(nproc)
PartitionName=all Nodes=$node Default=YES State=UP
CONF
    export SLURM_CONF=$work/slurm.conf
    slurmctld -D >"$work/slurmctld.log" 2>&1 &
    pids+=($!)
    slurmd -D -N "$node" >"$work/slurmd.log" 2>&1 &
    pids+=($!)
    until_ready "the node does not become idle" eval '[ "$(sinfo -h -o %T)" = idle ]'
    local batch=(sbatch --wait --quiet --output "$work/slurm-%a" "--array=1-$parts")
    batch+=(--wrap "$work/job \$SLURM_ARRAY_TASK_ID")
    "${batch[@]}" && wrong "no part failed, though one was killed"
    tail -n 2 "$work"/slurm-[1-9]
    # The parts that were done find all their runs.
    "${batch[@]}" || wrong "a part failed again"
    tail -n 2 "$work"/slurm-[1-9]
}

engine=${1:-parallel}
case $engine in parallel | slurm) ;; *) fail "choose parallel or slurm, not $engine" ;; esac
[ -x "$overlock" ] || fail "there is no $overlock; run: cargo build --release -p overlock-cli"
work=$(mktemp -d)
trap end EXIT
at=$(realpath -m "${2:-$work/out}")
mkdir -p "$at"
rm -rf "$at/whole" "$at/parts"

echo "== the whole sweep"
show "$at/whole" >"$at/whole.jsonl"
echo "== in $parts parts, under $engine"
mkdir "$at/parts"
write_job "$at/parts"
if [ "$engine" = parallel ]; then over_ssh; else under_slurm; fi
[ -e "$work/killed" ] || wrong "no part was killed"
echo "== merged"
show "$at/parts" >"$at/merged.jsonl" 2> >(tee "$at/merged.log" >&2)
grep -q ', 0 made; 0 of all' "$at/merged.log" || wrong "the parts lack runs"
cmp "$at/whole.jsonl" "$at/merged.jsonl" || wrong "the merged parts differ from the whole"
echo "equal: $(wc -l <"$at/merged.jsonl") records, $(wc -c <"$at/merged.jsonl") bytes"
