"""What find answers where a process remembers smaller plans of cuDNN's: what a process that begins with that size can do.

fresh_answer.py MAXBATCH
"""
import json
import subprocess
import sys

HERE = ["find", "--device", "h200", "--format", "json"]
DETECTOR = ["--model", "faster_rcnn", "--optimizer", "sgd-fused", "--budget", "16384MiB"]


def find(*arguments):
    done = subprocess.run([sys.argv[1], *HERE, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    return answer, done.stderr


def facts(answer):
    return answer["largest_batch_size"], answer["next_batch_size"], answer["peak_reserved_bytes"], answer["peak_allocated_bytes"]


by_itself, said = find(*DETECTOR)
in_fresh_ones, _ = find(*DETECTOR, "--fresh-processes")
in_one, said_in_one = find(*DETECTOR, "--no-fresh-processes")
assert facts(by_itself) == facts(in_fresh_ones), (facts(by_itself), facts(in_fresh_ones))
assert "in fresh processes: trial 1" in said, said
assert "fresh processes:" not in said_in_one, said_in_one
# The H200 said the same in one process, 9, and 8 in fresh ones (docs/detectors.md).
assert (in_one["largest_batch_size"], in_fresh_ones["largest_batch_size"]) == (9, 8), (facts(in_one), facts(in_fresh_ones))
assert "a process that begins with it has room for 8" in said, said

_, said = find("--model", "swin_t", "--budget", "4GiB", "--max-trials", "20")
assert "fresh processes:" not in said, said

done = subprocess.run([sys.argv[1], *HERE, *DETECTOR, "--fresh-processes", "--no-fresh-processes"], capture_output=True, text=True)
assert done.returncode == 2, (done.returncode, done.stderr)
print("fresh answers: by itself", facts(by_itself), "in one process", facts(in_one))
