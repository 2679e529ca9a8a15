#!/usr/bin/python3
"""Prints what is in TensorBoard event files, one line an event: kind, step, tag, value.

Written from TensorFlow's record format and event.proto alone, and with a CRC-32C of its own, so that it
can disagree with the files. Run: read_tfevents.py FILE...
"""
import struct
import sys


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    at = 0
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        payload = data[at + 12 : at + 12 + length]
        assert struct.unpack_from("<I", data, at + 8)[0] == masked(data[at : at + 8]), "length checksum"
        assert struct.unpack_from("<I", data, at + 12 + length)[0] == masked(payload), "payload checksum"
        yield payload
        at += 16 + length


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return value, at


def fields(data):
    """Number -> last value of a message's fields: an int, the bytes of a double or float, or bytes."""
    out, at = {}, 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
        else:
            size, at = varint(data, at) if kind == 2 else ({1: 8, 5: 4}[kind], at)
            value, at = data[at : at + size], at + size
        out[key >> 3] = value
    return out


for path in sys.argv[1:]:
    with open(path, "rb") as file:
        for payload in records(file.read()):
            event = fields(payload)
            step = event.get(2, 0)
            if 3 in event:
                print("version", step, event[3].decode())
            elif 7 in event:
                print("session", step, fields(event[7])[1])
            else:
                value = fields(fields(event[5])[1])
                print("scalar", step, value[1].decode(), "%.6g" % struct.unpack("<f", value[2])[0])
