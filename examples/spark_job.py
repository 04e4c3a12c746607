"""Does the shards of a job as tasks of Spark:

    spark-submit --conf spark.task.maxFailures=8 examples/spark_job.py JOB KEYFILE [OPTION...]

Each executor needs the program `evener` in its PATH, and the key file at this path. OPTION is one
of `evener job`, such as --endpoint-url=URL. Spark repeats a task that fails.
"""

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator

from pyspark.sql import SparkSession


def do_shards(numbers: Iterable[int]) -> Iterator[int]:
    """Does the shards of a partition, and gives the numbers of those that were not done yet."""
    for number in numbers:
        status = subprocess.call(["evener", "job", "run", *arguments, "--shard", str(number)])
        if status not in (0, 3):
            raise RuntimeError(f"evener job run ended with status {status} at shard {number}")
        if status == 0:
            yield number


if __name__ == "__main__":
    arguments = [sys.argv[1], "-k", *sys.argv[2:]]
    status = subprocess.check_output(["evener", "job", "status", *arguments, "--json"])
    # The largest first, one in a task.
    missing = json.loads(status)["missing"]
    with SparkSession.builder.appName("evener").getOrCreate() as spark:
        numbers = spark.sparkContext.parallelize(missing, len(missing) or 1)
        done = numbers.mapPartitions(do_shards).count()
    print(f"{done} shards done")
    sys.exit(subprocess.call(["evener", "job", "finish", *arguments]))
