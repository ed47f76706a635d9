"""Dumps that machines make of themselves: NCCL and hwloc XML, tables of nvidia-smi and rocm-smi."""
