"""`maxbatch table --cards` as a user runs it: a row for each card, proven, and the notes that belong to it."""
import json
import subprocess
import sys

program = sys.argv[1]
cards = ["gtx-1080-ti", "rtx-2080-ti", "rtx-4090", "rtx-3060"]
ran = subprocess.run([program, "table", "--models", "small_cnn,small_transformer", "--cards", ",".join(cards), "--enough", "64",
                      "--format", "json"], capture_output=True, text=True)
assert ran.returncode == 0, ran.stderr
rows = json.loads(ran.stdout)["results"]
assert [(row["model"], row["card"]) for row in rows] == [(model, card) for model in ("small_cnn", "small_transformer")
                                                         for card in cards], "rows by model, cards as asked"
for row in rows:
    assert row["error"] is None and row["evidence"] == "dry" and row["largest_batch_size"] == 64, row["card"]
    assert any("has no kernels for gtx-1080-ti" in text for text in row["warnings"]) == (row["card"] == "gtx-1080-ti"), row["warnings"]

searched = subprocess.run([program, "table", "--models", "swin_t", "--cards", "rtx-2080-ti,rtx-4090,rtx-3060", "--format", "json"],
                          capture_output=True, text=True)
assert searched.returncode == 0, searched.stderr
rows = json.loads(searched.stdout)["results"]
batches = {row["card"]: row["largest_batch_size"] for row in rows}
assert all(row["proof"] == "bracketed" for row in rows), batches
assert batches["rtx-2080-ti"] < batches["rtx-3060"] < batches["rtx-4090"], batches
alone = subprocess.run([program, "find", "--model", "swin_t", "--device", "rtx-3060", "--format", "json"], capture_output=True,
                       text=True)
assert json.loads(alone.stdout)["largest_batch_size"] == batches["rtx-3060"], "where a search begins does not change its answer"

image = subprocess.run([program, "find-image", "--model", "swin_t", "--batch", "8", "--device", "rtx-3060", "--format=json"],
                       capture_output=True, text=True)
assert image.returncode == 0, image.stderr
found = json.loads(image.stdout)
assert found["device_name"] == "NVIDIA GeForce RTX 3060" and found["evidence"] == "dry" and found["proof"] == "bracketed"
assert found["largest_image"][0] > 224, "a batch of 8 is far below the largest at 224x224"
print(batches, found["largest_image"])
