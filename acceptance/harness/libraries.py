"""Libraries that a process is started with (LD_PRELOAD), to see or to change what it asks of the system."""

import pathlib
import shutil
import subprocess

HERE = pathlib.Path(__file__).parent


def shared_library(folder, source, *options):
    """Compiles one into a folder; a source without one is of this folder."""
    source = HERE / source
    library = pathlib.Path(folder) / source.with_suffix(".so").name
    compiler = shutil.which("cc") or shutil.which("clang")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", *options, source, "-o", library, "-ldl"], check=True)
    return library
