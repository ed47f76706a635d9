"""A second execution of a program, on real memory: proof by doing, and a demo on a laptop.

``synth.program.msccl.verifying`` argues about a program symbolically. This room runs it instead: every rank is a
process of the operating system, its three buffers and its connections' FIFO slots are numpy arrays in shared memory,
its thread blocks take turns in it, and the numbers that come out are compared with numpy's result of the collective.
Nothing of the verifier's engine is used, so that a mistake would have to be made twice: the two share the ``Draft``
model, the check that a claim makes sense at all, the table of protocols, and the rules of selection, no more.

What is emulated: all ten step types; messages of at most ``maxAllowedCount`` chunks; FIFOs of the protocol's depth;
dependency flags per (block, iteration, step), counted as the runtime counts them; loop iterations over slices where a
chunk is larger than a message. What is not: the wire, warps, the fusion of ``re`` steps, and time. A race (a missing
dependency) shows only when the blocks happen to meet in the wrong order; finding every race is the verifier's work.

- ``run``, ``call``: the whole line. ``collective``, ``values``, ``check``: what goes in and what must come out.
- ``build``, ``blocks``: a draft as a job of plain numbers. ``host``: life and death of the processes.
- ``hang``: who waits for whom.
- ``machine``: what the processes run; a package of its own that needs nothing but numpy.
"""

from synth.emulate.report import Connection, RunReport
from synth.emulate.run import run_program

__all__ = ["Connection", "RunReport", "run_program"]
