"""Takes a subnet out of a supernet."""

from pathlib import Path
from typing import Any

from safetensors.torch import save

from autoprox.commands.supernet_eval import supernet_run
from autoprox.errors import ConfigError
from autoprox.files.atomic_writes import atomic_file, to_json
from autoprox.inputs.datasets import load_images
from autoprox.oneshot.supernet.checkpoint import FILE, read_supernet
from autoprox.oneshot.supernet.inherited import batch_norms, calibrated, calibration
from autoprox.oneshot.supernet.subnets import read_subnet
from autoprox.runs.folder import as_written
from autoprox.searchspaces import get_space


def extract_subnet(run: Path, arch: Path, out: Path) -> dict[str, Any]:
    """Write the plain network's weights, with its architecture and classes; returns its sizes."""
    path, trained = supernet_run(run)
    with as_written(path):
        space = get_space(str(trained["space"]))
    architecture = read_subnet(arch, space)
    if out.is_dir() or not out.absolute().parent.is_dir():
        raise ConfigError(f"the weights must be written to a file in a folder, but got {out}")
    supernet = read_supernet(path / FILE, space)
    network = supernet.extract(architecture)
    if batch_norms(network):
        images = Path(trained.get("images") or trained["train"])
        calibrated(network, calibration(load_images(images, space.input_shape).images))
    metadata = {
        "architecture": to_json(architecture.to_json()),
        "classes": str(supernet.classes),
    }
    with atomic_file(out) as file:
        file.write(save(network.state_dict(), metadata))
    return {
        "file": str(out),
        "space": space.name,
        "params": space.params(architecture, supernet.classes),
        "flops": space.flops(architecture, supernet.classes),
        "classes": supernet.classes,
    }
