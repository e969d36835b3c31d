"""A small GPT: each gradient travels while the rest of it is computed."""

import sluice.torch
from gpt import Gpt, train_text

model = Gpt()
opt = sluice.torch.Optimizer(model, overlap=True)
opt.run(model.loss, train_text())
