"""Hostile content: values that break rules, and mutations of files that keep their outer form.

A mutation takes a content, others of its kind, and a generator; it gives another content.
"""

import gzip
import io
import json
import struct
import zipfile
import zlib
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

Mutation = Callable[[bytes, Sequence[bytes], Random], bytes]

NAMES = (
    *("", "x", "../../outside/secret", "/etc/passwd", "a\0b", "a\nb", "evil:call", "k" * 300),
    *("\x1b[31m\x1b]0;owned\x07", "\x9b2J", "\u202egnp.exe", "\ud800", "<script>alert(1)</script>"),
)
VALUES: tuple[Any, ...] = (
    *(None, True, False, -1, 0, 1, 2, 0.5, 1e308, -1e308, 5e-324, 10**30, 2**63, -(2**63)),
    *(float("nan"), float("inf"), float("-inf"), [], [[]], {}, ["x"], {"x": 1}, [0, 0, 0]),
    *NAMES,
)
RAW = (  # what no value prints as
    *('{"a": 1, "a": 2}', "1e400", "-Infinity", "1" * 5000, r'"\ud800"', "[" * 40 + "]" * 40),
    *("[" * 10**5, '{"a":' * 10**5, '{"' + "k" * 10**5 + '": [' + "1," * 10**5 + "1]}"),
    *('"' + "v" * 10**6 + '"', "[" + "{}," * 10**5 + "0]"),
)
PIECES = (
    *(b"", b"\0", b"\xff" * 8, b"\x7f\xff\xff\xff", b"\x80", b"\0\0\0\x80", b"1e999", b"-", b"NaN"),
    *(b"\x1b[31m", b"../", b"\xed\xa0\x80", b"((((", b"A" * 300, b'"', b"{", b"[", b",", b":"),
)


def mutate_bytes(content: bytes, others: Sequence[bytes], rng: Random) -> bytes:
    """Bits flipped, pieces cut, doubled, put in, or taken from another file."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        # The beginning, where formats have their headers, as often as all the rest.
        size = rng.choice((len(data), min(len(data), 128)))
        begin = rng.randint(0, size)
        end = min(len(data), begin + rng.choice((0, 1, 2, 4, 8, 64)))
        kind = rng.randrange(6)
        if kind == 0 and begin < len(data):
            data[begin] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[begin:end] = rng.choice(PIECES)
        elif kind == 2:
            data[begin:end] = rng.randbytes(end - begin)
        elif kind == 3:
            data[begin:begin] = data[begin:end] * rng.choice((1, 2, 100))
        elif kind == 4:
            other = rng.choice(others)
            data[begin:] = other[rng.randint(0, len(other)) :]
        else:
            del data[begin : rng.choice((end, len(data)))]
    return bytes(data)


def mutate_json(content: bytes, others: Sequence[bytes], rng: Random) -> bytes:
    """Values and keys replaced, left out and doubled, at any depth."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return mutate_bytes(content, others, rng)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        value = _changed(value, rng)
    text = json.dumps(value)
    if rng.random() < 0.05:
        places = [place for place, c in enumerate(text) if c in ":,["] or [0]
        place = rng.choice(places) + 1
        text = text[:place] + rng.choice(RAW) + rng.choice((text[place:], ", " + text[place:]))
    return text.encode(errors="surrogatepass")


def _changed(value: Any, rng: Random) -> Any:
    if not isinstance(value, dict | list) or not value or rng.random() < 0.1:
        return rng.choice(VALUES)
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    key, kind = rng.choice(keys), rng.random()
    if kind < 0.8:
        return _with(value, key, _changed(value[key], rng))
    if kind < 0.9:  # without it
        return _with(value, key)
    other = value[rng.choice(keys)]
    if isinstance(value, list):
        return [*value, other]
    return {**value, rng.choice((rng.choice(NAMES), key)): other}


def _with(value: Any, key: Any, *new: Any) -> Any:
    if isinstance(value, list):
        return [*value[:key], *new, *value[key + 1 :]]
    others = {name: own for name, own in value.items() if name != key}
    return others | ({key: new[0]} if new else {})


def mutate_lines(content: bytes, others: Sequence[bytes], rng: Random) -> bytes:
    """Of JSON lines one changed, left out, doubled or moved."""
    lines = content.split(b"\n")
    place = rng.randrange(len(lines))
    kind = rng.random()
    if kind < 0.7:
        lines[place] = mutate_json(lines[place] or b"{}", others, rng)
    elif kind < 0.8:
        del lines[place]
    elif kind < 0.9:
        lines.insert(rng.randrange(len(lines)), lines[place])
    else:
        return mutate_bytes(content, others, rng)
    return b"\n".join(lines)


def mutate_text(words: Sequence[str]) -> Mutation:
    """Of a text in a language of these words: some replaced, doubled, put in or left out."""

    def mutation(content: bytes, others: Sequence[bytes], rng: Random) -> bytes:
        text = content.decode(errors="replace")
        for _ in range(rng.choice((1, 2, 4))):
            place = rng.randint(0, len(text))
            word = rng.choice((rng.choice(words), rng.choice((*NAMES, "(" * 10**5, "é", "1e9"))))
            text = text[:place] + word + text[place + rng.choice((0, 0, 1, len(word))) :]
        return text.encode(errors="surrogatepass")

    return mutation


def mutate_zip(content: bytes, others: Sequence[bytes], rng: Random) -> bytes:
    """A member of an archive is changed, left out, doubled or renamed."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    except Exception:  # a broken archive
        return mutate_bytes(content, others, rng)
    place = rng.randrange(len(members) or 1)
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as new:
        for number, (name, data) in enumerate(members):
            if number == place:
                data = rng.choice((mutate_bytes(data, [data], rng), mutate_header(data, rng)))
                name = rng.choice((name, name, name, "../../outside/secret"))
            new.writestr(name, data)
    return made.getvalue()


def mutate_header(content: bytes, rng: Random) -> bytes:
    """Numbers in the first bytes become others: the shapes and types of a .npy file."""
    header = bytearray(content[:256])
    digits = [place for place, byte in enumerate(header) if 48 <= byte < 58] or [0]
    place = rng.choice(digits)
    header[place : place + 1] = rng.choice((b"0", b"-1", b"9" * 15, b"1e9", b"(1,)", b"", b"7"))
    return bytes(header) + content[256:]


def mutate_gzip(content: bytes, others: Sequence[bytes], rng: Random) -> bytes:
    """What is within is changed, or the outer form."""
    try:
        inner = gzip.decompress(content)
    except Exception:  # it isn't packed, or broken
        return mutate_bytes(content, others, rng)
    if rng.random() < 0.2:
        return mutate_bytes(content, others, rng)
    return gzip.compress(mutate_bytes(inner, [inner], rng), 1)


def mutate_png(content: bytes, others: Sequence[bytes], rng: Random) -> bytes:
    """A chunk is changed, and its checksum put right."""
    if rng.random() < 0.5 or not content.startswith(b"\x89PNG"):
        return mutate_bytes(content, others, rng)
    chunks, place = [], 8
    while place + 8 <= len(content):
        length = int.from_bytes(content[place : place + 4], "big")
        chunks.append((content[place + 4 : place + 8], content[place + 8 : place + 8 + length]))
        place += 12 + length
    if not chunks:
        return mutate_bytes(content, others, rng)
    changed = rng.randrange(len(chunks))
    chunks[changed] = chunks[changed][0], mutate_bytes(chunks[changed][1], [b"\0"], rng)
    return content[:8] + b"".join(png_chunk(name, data) for name, data in chunks)


def png_chunk(name: bytes, data: bytes) -> bytes:
    """A chunk of a PNG file."""
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def mutate_safetensors(content: bytes, others: Sequence[bytes], rng: Random) -> bytes:
    """The header is changed as JSON, and its length and the checksum put right."""
    length = int.from_bytes(content[:8], "little")
    try:
        known = json.loads(content[8 : 8 + length])["__metadata__"].get("crc32", "none")
    except Exception:  # a broken header
        return mutate_bytes(content, others, rng)
    header, body = content[8 : 8 + length], content[8 + length :]
    if rng.random() < 0.3:
        return mutate_bytes(content, others, rng)
    if rng.random() < 0.2:
        body = mutate_bytes(body, [body], rng)
    else:
        header = mutate_json(header, [header], rng)
    if rng.random() < 0.8:
        header = header.replace(
            f'"{known}"'.encode(errors="replace"), f'"{zlib.crc32(body)}"'.encode()
        )
    return len(header).to_bytes(8, "little") + header + body
