"""MSCCL++: execution plans (JSON 0.9) of its executor."""
