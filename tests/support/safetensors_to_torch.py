"""Loads a safetensors file into torch tensors with nothing but json and torch.

Used where the safetensors package is not installed. Run as a script it prints one line a tensor:
name, dtype, shape, sum of the elements in double precision.
"""
import json
import sys

import torch

DTYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
    "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8,
    "U8": torch.uint8, "BOOL": torch.bool,
}


def load_safetensors(path):
    """Returns a dict of name -> torch tensor; the header's metadata is left out."""
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length).decode("utf-8"))
        data = bytearray(file.read())
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        dtype = DTYPES[entry["dtype"]]
        if begin == end:
            tensors[name] = torch.empty(entry["shape"], dtype=dtype)
            continue
        # A copy, so that every tensor is aligned and owns its memory.
        flat = torch.frombuffer(bytearray(data[begin:end]), dtype=dtype)
        tensors[name] = flat.reshape(entry["shape"])
    return tensors


if __name__ == "__main__":
    for key, tensor in sorted(load_safetensors(sys.argv[1]).items()):
        print(key, str(tensor.dtype).replace("torch.", ""), list(tensor.shape),
              tensor.double().sum().item())
