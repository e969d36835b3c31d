"""LeNet on Fashion-MNIST: a plain PyTorch loop."""

import torch
from fashion_mnist import FashionMnist, LeNet
from torch.nn.functional import cross_entropy

dataset = FashionMnist("train")
model = LeNet()
opt = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
loader = torch.utils.data.DataLoader(dataset, batch_size=64, shuffle=True)
for images, labels in loader:
    opt.zero_grad()
    loss = cross_entropy(model(images), labels)
    loss.backward()
    opt.step()
