#!/usr/bin/env python3
"""Every batch size of a range, each in a process of its own: the truth that a search is compared with.

    python3 tests/benchmarks/boundary_scan.py --program build/src/cli/maxbatch --model swin_l --device cuda:0 \\
        --budget 10700MiB --from 1 --to 26 --jobs 8

Prints a line per size and the boundary; --json FILE keeps everything. Nothing is timed: several processes run at once.
"""
import argparse
import concurrent.futures
import json
import subprocess
import sys


def run(arguments, size):
    command = [arguments.program, "find", "--model", arguments.model, "--device", arguments.device, "--budget",
               arguments.budget, "--min", str(size), "--max", str(size), "--format", "json", *arguments.rest]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 3):
        return {"size": size, "fits": None, "error": done.stderr.strip()[-400:]}
    answer = json.loads(done.stdout)
    trial = answer["trials"][-1]
    return {"size": size, "fits": answer["largest_batch_size"] == size, "outcome": trial["outcome"],
            "peak_reserved_bytes": trial["peak_reserved_bytes"], "peak_allocated_bytes": trial["peak_allocated_bytes"],
            "allocation_retries": trial["allocation_retries"], "reduced_workspaces": trial["reduced_workspaces"],
            "failed_request_bytes": trial["failed_request_bytes"], "failed_phase": trial["failed_phase"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--budget", required=True)
    parser.add_argument("--from", dest="first", type=int, default=1)
    parser.add_argument("--to", dest="last", type=int, required=True)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", default="")
    parser.add_argument("rest", nargs="*", help="further options of `maxbatch find`, after --")
    arguments = parser.parse_args()
    sizes = range(arguments.first, arguments.last + 1)
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        rows = list(pool.map(lambda size: run(arguments, size), sizes))
    for row in rows:
        if row["fits"] is None:
            print(f"{row['size']:5}  error: {row['error']}")
            continue
        peak = "-" if row["peak_reserved_bytes"] is None else f"{row['peak_reserved_bytes'] / 2**20:9.0f} MiB reserved"
        print(f"{row['size']:5}  {row['outcome']:22} {peak}, {row['allocation_retries']} retries, "
              f"{row['reduced_workspaces']} reduced workspaces")
    fitting = [row["size"] for row in rows if row["fits"]]
    failing = [row["size"] for row in rows if row["fits"] is False]
    print(f"largest that fits: {max(fitting, default=None)}; smallest that does not: {min(failing, default=None)}")
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump({"model": arguments.model, "device": arguments.device, "budget": arguments.budget,
                       "largest": max(fitting, default=None), "rows": rows}, file, indent=1)
    return 1 if any(row["fits"] is None for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
