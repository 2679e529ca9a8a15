"""What torchvision's train and validation transforms make of photos: image_pipeline_test.cpp compares.

DIR/pipeline.txt: path, width, height, CRC-32 of the RGB pixels, of the training crop (seeded with the line's number)
and of the validation crop. Run: image_pipeline.py ARCHIVE.tar|FOLDER DIR
"""
import os
import sys
import tarfile
import warnings
import zlib

import numpy as np
import torch
from PIL import Image
from torchvision import transforms

warnings.simplefilter("ignore")
TRAIN = transforms.Compose([transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip()])
VAL = transforms.Compose([transforms.Resize(256), transforms.CenterCrop(224)])


def files_of(source, target):
    if os.path.isdir(source):
        return sorted(os.path.join(source, name) for name in os.listdir(source)
                      if name.startswith(("jpeg-4", "jpeg-grey", "jpeg-cmyk", "png-rgb-8", "webp-lossy")))
    with tarfile.open(source) as archive:
        for member in archive:
            if member.isfile():
                member.name = member.name.replace("/", "_")
                archive.extract(member, os.path.join(target, "photos"))
    folder = os.path.join(target, "photos")
    return sorted(os.path.join(folder, name) for name in os.listdir(folder))


def crc(image):
    return zlib.crc32(np.asarray(image).tobytes())


def main():
    torch.set_num_threads(1)
    with open(os.path.join(sys.argv[2], "pipeline.txt"), "w", encoding="utf-8") as out:
        for i, path in enumerate(files_of(sys.argv[1], sys.argv[2])):
            image = Image.open(path).convert("RGB")
            torch.manual_seed(i)
            out.write(f"{path} {image.width} {image.height} {crc(image)} {crc(TRAIN(image))} {crc(VAL(image))}\n")


if __name__ == "__main__":
    main()
