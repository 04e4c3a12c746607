"""Runs jobs one after another with `evener.ray`, and prints their reports.

python tests/clusters/driver.py ADDRESS NODE RUNS-IN-JSON
"""

import json
import sys

import evener.ray
import ray

if __name__ == "__main__":
    address, node, runs = sys.argv[1:]
    # Ray would take the address of this machine for that of the node.
    ray.init(address, _node_ip_address=node, log_to_driver=False, logging_level="warning")
    print(json.dumps([evener.ray.run(**arguments) for arguments in json.loads(runs)]))
