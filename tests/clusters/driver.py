"""Runs a job with `evener.ray`, and prints its report.

python tests/clusters/driver.py ADDRESS NODE JOB ARGUMENTS-IN-JSON
"""

import json
import sys

import evener.ray
import ray

if __name__ == "__main__":
    address, node, job, arguments = sys.argv[1:]
    # Ray would take the address of this machine for that of the node.
    ray.init(address, _node_ip_address=node, log_to_driver=False, logging_level="warning")
    print(json.dumps(evener.ray.run(job, **json.loads(arguments))))
