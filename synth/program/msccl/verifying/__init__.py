"""The verifier of MSCCL programs: replay on bounded FIFOs, races, contents, outputs."""
