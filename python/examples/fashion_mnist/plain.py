"""LeNet on Fashion-MNIST: a plain PyTorch loop."""

import torch
from fashion_mnist import FashionMnist, LeNet, evaluate
from torch.nn.functional import cross_entropy

dataset, test = FashionMnist("train"), FashionMnist("t10k")
model = LeNet()
opt = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
loader = torch.utils.data.DataLoader(dataset, batch_size=64, shuffle=True)
for images, labels in loader:
    opt.zero_grad()
    loss = cross_entropy(model(images), labels)
    loss.backward()
    opt.step()
print("test loss %.4f, accuracy %.4f" % evaluate(model, test))
