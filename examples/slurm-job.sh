#!/bin/sh
# Does a job in an array of Slurm:
#
#   sbatch --array=0-99 examples/slurm-job.sh s3://lake/jobs/november /shared/keys/job.key
#
# and afterwards, on one node:
#
#   evener job finish s3://lake/jobs/november -k /shared/keys/job.key
#
# The array begins at 0. The key file is on storage that all nodes see; only its owner may read it (chmod 600).
#SBATCH --job-name=evener
#SBATCH --cpus-per-task=4
# A task of a node that fails goes on elsewhere.
#SBATCH --requeue
# The end comes two minutes before the time is over, so that uploads are ended too.
#SBATCH --signal=B:TERM@120

exec evener job run "$1" -k "$2" --jobs "$SLURM_CPUS_PER_TASK" \
    --worker "$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT"
