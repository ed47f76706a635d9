"""NCCL and RCCL: topology XML and the graph that NCCL_DEBUG=INFO prints."""
