"""The verifier of MSCCL++ plans: loader, hazards, simulation of two launches."""
