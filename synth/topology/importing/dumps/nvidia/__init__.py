"""NVIDIA: the matrix of nvidia-smi topo -m, and what stands beside it."""
