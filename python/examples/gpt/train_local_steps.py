"""A small GPT: each worker makes ten steps of its own AdamW between pushes."""

import sluice.torch
import torch
from gpt import Gpt, train_text

model = Gpt()
inner = torch.optim.AdamW(model.parameters(), lr=0.002, betas=(0.9, 0.99),
                          weight_decay=0.1)
opt = sluice.torch.LocalSteps(model, inner)
for text in opt.batches(train_text()):
    opt.zero_grad()
    loss = model.loss(text)
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1)
    opt.log({"gradient_norm": norm})
    opt.step(loss)
