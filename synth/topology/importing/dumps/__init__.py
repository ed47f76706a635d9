"""Dumps that machines make of themselves: NCCL and hwloc XML, tables of nvidia-smi, rocm-smi and amd-smi, NCCL logs."""
