"""LeNet on Fashion-MNIST: the loop of plain.py under Sluice."""

import sluice.torch
from fashion_mnist import FashionMnist, LeNet, evaluate
from torch.nn.functional import cross_entropy

dataset, test = FashionMnist("train"), FashionMnist("t10k")
model = LeNet()
opt = sluice.torch.Optimizer(model)
for images, labels in opt.batches(dataset):
    opt.zero_grad()
    loss = cross_entropy(model(images), labels)
    loss.backward()
    opt.step(loss)
opt.evaluate(lambda: evaluate(model, test))
