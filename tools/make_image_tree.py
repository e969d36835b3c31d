#!/usr/bin/python3 -B
"""Writes a small tree of JPEG images, to try data.jpeg without ImageNet:
Fashion-MNIST's, enlarged to sizes from 40 to 95 pixels, in colour.

    tools/make_image_tree.py DIR [--train N] [--test N] [--tar]

makes DIR/train and DIR/test with a folder for each of the ten classes; with --tar,
the same images as tar files of up to 100 (WebDataset), in the same order. Needs
Debian's python3-numpy, python3-pil and dataset-fashion-mnist.
"""

import argparse
import gzip
import io
import pathlib
import tarfile

import numpy
from PIL import Image

FASHION_MNIST = pathlib.Path("/usr/share/datasets/fashion-mnist")
CLASSES = ["t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt",
           "sneaker", "bag", "ankle-boot"]
IMAGES_A_TAR = 100


def read(path, header, shape):
    values = gzip.open(path).read()[header:]
    return numpy.frombuffer(values, numpy.uint8).reshape(shape)


def images(part, count):
    """(label, JPEG bytes) of the first images, by class name as data.jpeg has
    them."""
    pixels = read(FASHION_MNIST / f"{part}-images-idx3-ubyte.gz", 16,
                  (-1, 28, 28))[:count]
    labels = read(FASHION_MNIST / f"{part}-labels-idx1-ubyte.gz", 8, -1)
    tints = numpy.array([[1, .9, .8], [.8, 1, .9], [.9, .8, 1]])
    for i, grey in enumerate(pixels):
        colour = (grey[..., None] * tints[i % 3]).astype(numpy.uint8)
        size = (40 + 7 * i % 56, 40 + 11 * i % 56)
        jpeg = io.BytesIO()
        Image.fromarray(colour).resize(size, Image.BICUBIC).save(
            jpeg, "JPEG", quality=90)
        yield CLASSES[labels[i]], jpeg.getvalue()


def write_folders(folder, of_split):
    for i, (name, jpeg) in enumerate(of_split):
        path = folder / name / f"{i:06}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(jpeg)


def write_tars(folder, of_split):
    folder.mkdir(parents=True, exist_ok=True)
    numbers = {name: i for i, name in enumerate(sorted(CLASSES))}
    # Stable, so that it is the order of the folders' names.
    samples = sorted(enumerate(of_split), key=lambda sample: sample[1][0])
    for first in range(0, len(samples), IMAGES_A_TAR):
        with tarfile.open(folder / f"{first // IMAGES_A_TAR:06}.tar",
                          "w") as tar:
            for i, (name, jpeg) in samples[first:first + IMAGES_A_TAR]:
                for kind, content in (("cls", str(numbers[name]).encode()),
                                      ("jpg", jpeg)):
                    member = tarfile.TarInfo(f"{i:06}.{kind}")
                    member.size = len(content)
                    tar.addfile(member, io.BytesIO(content))


def count_up_to(most):
    """For the type of an argument."""
    def count(text):
        if not text.isdecimal() or not 1 <= int(text) <= most:
            raise argparse.ArgumentTypeError(
                f"expected 1 to {most}, got {text!r}")
        return int(text)
    return count


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", type=pathlib.Path, metavar="DIR")
    parser.add_argument("--train", type=count_up_to(60000), default=2000,
                        metavar="N")
    parser.add_argument("--test", type=count_up_to(10000), default=500,
                        metavar="N")
    parser.add_argument("--tar", action="store_true")
    args = parser.parse_args()
    write = write_tars if args.tar else write_folders
    splits = {args.folder / "train": ("train", args.train),
              args.folder / "test": ("t10k", args.test)}
    for folder in splits:
        if folder.exists():
            parser.error(f"{folder}: expected a new folder, is there already")
    for folder, (part, count) in splits.items():
        write(folder, images(part, count))


if __name__ == "__main__":
    main()
