# Somebody's ordinary training program: 12 encoder layers, AdamW, three steps. It knows nothing of maxbatch.
# maxbatch dry-run --card rtx-2080-ti -- python examples/train_encoder.py 18
import sys, torch
batch = int(sys.argv[1])
model = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(1024, 16, 4096, batch_first=True), 12).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    optimizer.zero_grad()
    model(torch.randn(batch, 512, 1024, device="cuda")).square().mean().backward()
    optimizer.step()
