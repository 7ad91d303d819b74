"""The machine: interpreters and installed packages, wheels from the index, toolchain, GPUs and links, processes."""
