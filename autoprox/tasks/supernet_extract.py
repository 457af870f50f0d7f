"""Takes a subnet out of a supernet."""

from pathlib import Path
from typing import Any

from safetensors.torch import save

from autoprox.errors import ConfigError
from autoprox.files.atomic import atomic_file, to_json
from autoprox.inputs.datasets import load_images
from autoprox.oneshot.supernet.inherited_accuracy import batch_norms, calibrate, calibration_images
from autoprox.oneshot.supernet.shared_weights import CHECKPOINT_FILE, read_supernet
from autoprox.oneshot.supernet.subnets import read_subnet
from autoprox.runs.folder import as_written
from autoprox.searchspaces import get_space
from autoprox.tasks.supernet_eval import supernet_run


def extract_subnet(run: Path, arch: Path, out: Path) -> dict[str, Any]:
    """Write the plain network's weights, with its architecture and classes; returns its sizes."""
    path, trained = supernet_run(run)
    with as_written(path):
        space = get_space(str(trained["space"]))
    architecture = read_subnet(arch, space)
    if out.is_dir() or not out.absolute().parent.is_dir():
        raise ConfigError(f"the weights must be written to a file in a folder, but got {out}")
    supernet = read_supernet(path / CHECKPOINT_FILE, space)
    network = supernet.extract(architecture)
    if batch_norms(network):
        images = Path(trained.get("images") or trained["train"])
        calibrate(network, calibration_images(load_images(images, space.input_shape).images))
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
