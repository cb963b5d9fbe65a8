"""The simulator's speed beside a sketch of the allocator in Python, in one run, each at its best of several.

allocator_simulator_beside_sketch.py BENCHMARK SKETCH RECORDING
  BENCHMARK   the program allocator_simulator_benchmark
  SKETCH      a Python file with load(path) -> events, segments and replay(events, address_of)
  RECORDING   a trace as CSV, compressed
"""
import importlib.util
import json
import os
import subprocess
import sys
import time


def sketch_events_per_second(sketch_path, recording):
    spec = importlib.util.spec_from_file_location("sketch", sketch_path)
    sketch = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sketch)
    events, segments = sketch.load(recording)
    count = sum(event[0] in "af" for event in events)
    best = float("inf")
    for _ in range(7):
        addresses = iter([address for address, size in segments if size > 0])
        begin = time.perf_counter()
        sketch.replay(events, lambda size: next(addresses))
        best = min(best, time.perf_counter() - begin)
    return count / best


def simulator_events_per_second(benchmark, recording):
    output = subprocess.run(
        [benchmark, "--benchmark_format=json", "--benchmark_repetitions=9", "--benchmark_min_time=0.1",
         "--benchmark_filter=^RecordedAddresses"],
        env={**os.environ, "MAXBATCH_RECORDING": recording}, capture_output=True, text=True, check=True).stdout
    best = {}
    for run in json.loads(output)["benchmarks"]:
        if run["run_type"] == "iteration":
            best[run["name"]] = max(best.get(run["name"], 0), run["items_per_second"])
    return best


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    simulator = simulator_events_per_second(sys.argv[1], sys.argv[3])
    sketch = sketch_events_per_second(sys.argv[2], sys.argv[3])
    print(f"sketch: {sketch / 1e6:.3f} million events a second")
    for name, speed in simulator.items():
        print(f"{name}: {speed / 1e6:.1f} million events a second, {speed / sketch:.0f} times the sketch")
