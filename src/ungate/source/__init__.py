"""Reading code: Python, CUDA and C++ conditions, reduced to one tree and evaluated to sets of architectures."""
