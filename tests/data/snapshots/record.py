"""Made the snapshots of this folder, each under `maxbatch dry-run --card h200 -- python record.py KIND OUT [MAX_ENTRIES]`:
plain: plain OUT; late: late OUT; truncated: late OUT 150; expandable_truncated: late OUT 120, with
PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; settings: plain OUT, with roundup_power2_divisions:4,max_split_size_mb:64.
Prints the allocator's statistics, which the tests expect of a replay. Then gzip -9 -n.
two: the second half, with --devices 2."""
import sys
import torch


def two_devices(out):
    torch.cuda.memory._record_memory_history(enabled='all', context=None, max_entries=100000)
    tot = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction((200*2**20+0.5)/tot, 0)
    a = torch.empty(60 << 20, dtype=torch.uint8, device='cuda:0')
    b = torch.empty(80 << 20, dtype=torch.uint8, device='cuda:0'); del b
    c = torch.empty(90 << 20, dtype=torch.uint8, device='cuda:0')
    try:
        d = torch.empty(100 << 20, dtype=torch.uint8, device='cuda:0')
    except torch.OutOfMemoryError as e: print('caught', str(e)[:80])
    d = torch.empty(30 << 20, dtype=torch.uint8, device='cuda:0')
    if torch.cuda.device_count() > 1:
        e = [torch.empty(1 << 20, device='cuda:1') for i in range(3)]; del e[1]
    torch.cuda.memory._dump_snapshot(out)


kind, out = sys.argv[1], sys.argv[2]
if kind == 'two':
    two_devices(out)
    sys.exit()
maxe = int(sys.argv[3]) if len(sys.argv) > 3 else 4000000
ctx = sys.argv[4] if len(sys.argv) > 4 else None
if ctx == 'none': ctx = None
dev = torch.device('cuda')
if kind == 'late':
    keep = [torch.empty(3000000 + i * 777, device=dev) for i in range(6)]
    del keep[2]; keep.append(torch.empty(1000, device=dev))
torch.cuda.memory._record_memory_history(enabled='all', context=ctx, max_entries=maxe)
m = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.ReLU(), torch.nn.Linear(2048, 2048), torch.nn.ReLU(), torch.nn.Linear(2048, 10)).to(dev)
opt = torch.optim.AdamW(m.parameters())
s2 = torch.cuda.Stream()
for i in range(3):
    x = torch.randn(4096, 512, device=dev)
    with torch.cuda.stream(s2):
        y = torch.empty(1 << 22, device=dev)
        z = y * 2
    m(x).square().mean().backward()
    opt.step(); opt.zero_grad()
    if i == 1: torch.cuda.empty_cache()
torch.cuda.memory._dump_snapshot(out)
st = torch.cuda.memory_stats()
print({k: v for k, v in st.items() if k.endswith(('all.peak', 'retries', 'ooms')) })
