"""A folder like those of LiteTransformerSearch, with our own numbers, and archives of it."""

import hashlib
import io
import tarfile
from collections.abc import Mapping

NAMES = [f"config_{i}_j{j}" for i in range(4) for j in range(3)]
CONFIG = """adaptive: true
cutoffs:
- 19997
- 39997
- 199997
- 50264
d_embed: {embed}
d_head: -1
d_inner:
- {inner}
- 640
d_model: 128
div_val: {divisor}
dtype: null
n_head:
- 2
- 8
n_layer: 2
n_token: 50264
proj_init_std: 0.01
tgt_len: 192
tie_weight: true
"""
INSIDE = "archai/nlp/nas/saved_logs/random_GPT2_wt103"


def lts_folder() -> dict[str, bytes]:
    """Twelve networks and their perplexities, by path below the folder."""
    perplexities, found = "", {}
    for n, name in enumerate(NAMES):
        embed = -1 if n == 0 else (128, 256, 512)[n % 3]
        config = CONFIG.format(embed=embed, inner=600 + n, divisor=(1, 2, 4)[n % 3])
        found[f"{name.replace('_j', '/j')}/model_config.yaml"] = config.encode()
        perplexities += f"{name}:\n  test_ppl: 1.5e+2\n  valid_ppl: {40 - n / 3}\n"
    return {**found, "ppl_summary.yaml": perplexities.encode()}


def folder_digest(contents: Mapping[str, bytes]) -> str:
    """The hash by which a folder is pinned."""
    lines = [f"{path} {hashlib.sha256(own).hexdigest()}\n" for path, own in contents.items()]
    return hashlib.sha256("".join(sorted(lines)).encode()).hexdigest()


def archive(
    contents: Mapping[str, bytes], *more: tarfile.TarInfo, folder: str = f"archai-0/{INSIDE}"
) -> bytes:
    """A .tar.gz of the folder, and of other members without content."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for path, content in contents.items():
            member = tarfile.TarInfo(f"{folder}/{path}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
        for member in more:
            tar.addfile(member, io.BytesIO(bytes(member.size)))
    return packed.getvalue()


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    """A member that is a link."""
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member
