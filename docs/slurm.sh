#!/bin/bash
# A grid on the nodes of one SLURM job, by Ray's own `ray symmetric-run`: sbatch docs/slurm.sh --cfg ... --grid ... --resume
#SBATCH --job-name=graphgym-srnc
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --exclusive
#SBATCH --time=08:00:00
# A node that fails does not end the job; Ray runs what it was at elsewhere.
#SBATCH --no-kill
set -euo pipefail

# The environment, the same on all nodes; the package and Ray are installed in it.
source "${VENV:-$HOME/venv}/bin/activate"
export GRAPHGYM_SRNC_DATA="${GRAPHGYM_SRNC_DATA:-$HOME/datasets}"
export RAY_USAGE_STATS_ENABLED=0
# Seconds until all nodes must have joined; importing Ray from a shared file system takes its time.
export RAY_SYMMETRIC_RUN_CLUSTER_WAIT_TIMEOUT=300

# Where the first node, which also runs the grid, is reached by the others.
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
address=$(srun --nodes=1 --ntasks=1 --nodelist="$first" hostname -I | awk '{print $1}')

srun --no-kill --kill-on-bad-exit=0 ray symmetric-run --address "$address:6379" --min-nodes "$SLURM_JOB_NUM_NODES" \
    --num-cpus "$SLURM_CPUS_PER_TASK" -- graphgym-srnc grid --executor ray "$@"
