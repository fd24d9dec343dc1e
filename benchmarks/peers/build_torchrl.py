"""Compiles TorchRL's sum tree for the torch that is installed; its wheels are built for another.

The sources lie in the wheel. It takes a minute or two and needs g++.
"""

import subprocess
import sysconfig
from importlib.util import find_spec
from pathlib import Path

import torch
from torch.utils.cpp_extension import include_paths


def main() -> None:
    """Write the extension over the one that does not load."""
    package = find_spec("torchrl")
    assert package is not None
    assert package.origin is not None
    folder, libraries = Path(package.origin).parent, Path(torch.__file__).parent / "lib"
    sources = folder / "csrc"
    includes = [*include_paths(), sysconfig.get_paths()["include"], sources, folder.parent]
    command = ["g++", "-O3", "-std=c++20", "-shared", "-fPIC", "-DTORCH_EXTENSION_NAME=_torchrl"]
    command += [f"-I{path}" for path in includes]
    command += [str(sources / "pybind.cpp"), str(sources / "utils.cpp"), f"-L{libraries}"]
    command += ["-ltorch", "-ltorch_cpu", "-ltorch_python", "-lc10", f"-Wl,-rpath,{libraries}"]
    command += ["-o", str(folder / f"_torchrl{sysconfig.get_config_var('EXT_SUFFIX')}")]
    subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
