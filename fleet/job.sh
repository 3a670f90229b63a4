#!/bin/sh
# The job of one machine, which `make fleet` submits: measures in a checkout and into a folder of its own, then hands the
# run over by one rename. Started again, it resumes at the next round and measures nothing twice.
#     job.sh <clone> <revision> <checkout> <data/runs/.partial/own folder> <arguments of make measure>
# What your cluster needs, such as an account, a partition or more hours, goes here.
#SBATCH --time=12:00:00
#SBATCH --nodes=1 --exclusive --mem=0
#SBATCH --requeue --dependency=singleton --open-mode=append
clone=$1 revision=$2 checkout=$3 own=$4 runs=${4%/.partial/*}
shift 4
# Its parts are named: git would search for them upwards, and find the clone in which this folder lies.
check_out() { git --git-dir="$checkout/.git" --work-tree="$checkout" checkout --quiet --force --detach "$revision"; }
make_anew() { rm -rf "$checkout" && git clone --quiet --shared --no-checkout "$clone" "$checkout"; }
measured() { [ -e "$own"/*/*/run.json ]; }
measure() { { check_out 2>&- || { make_anew && check_out; }; } && make -C "$checkout" measure ASYNC_COST_RUNS="$own" "$@"; }
# The link says which run came of it, and leads nowhere until that is there.
hand_over() {
    cd "$own" && run=$(dirname */*/run.json) && mkdir -p "$runs/${run%/*}" "$runs/../comparisons" &&
        cp ../comparisons/*.csv "$runs/../comparisons" &&
        ln -sfn "$runs/$run" run && mv -T "$run" "$runs/$run"
}
trap 'exit 1' TERM # cancelled: not tried again
[ -e "$own/run" ] || { { measured || measure "$@"; } && hand_over; } && exit
[ "${SLURM_RESTART_COUNT:-0}" -ge 2 ] || scontrol requeue "$SLURM_JOB_ID"
exit 1
