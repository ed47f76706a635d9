"""Shared memory, and the life and death of the processes, seen from the user's process.

The memory has no name and the processes have no locks: both are reached through inherited file descriptors only. So
there is nothing that could be left behind, whichever process is killed and when. (``multiprocessing.shared_memory``
would leave named segments to a resource tracker, and is limited to ``/dev/shm``, 64 MiB in a container.)
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from synth.emulate.machine import job as job_module
from synth.emulate.machine.job import Job
from synth.errors import LimitReachedError

# The folder is loaded under a name of its own: importing it as a part of synth would import the solvers.
_BOOTSTRAP: Final = """
import importlib.util, json, sys
folder, path, memory, lifeline = json.loads(sys.argv[1])
sys.path[:] = path
spec = importlib.util.spec_from_file_location(
    "synth_machine", folder + "/__init__.py", submodule_search_locations=[folder])
sys.modules["synth_machine"] = package = importlib.util.module_from_spec(spec)
spec.loader.exec_module(package)
from synth_machine.launcher import main
main(memory, lifeline)
"""
_GRACE_S: Final = 30.0
_FAREWELL_S: Final = 5.0


@contextlib.contextmanager
def shared_memory(size: int) -> Iterator[tuple[mmap.mmap, int]]:
    """Zeroed memory without a name, and the file descriptor through which a child maps it too.

    Raises
    ------
    LimitReachedError
        When the system refuses that much.
    """
    try:
        memory = _nameless()
    except OSError as error:
        raise LimitReachedError(f"no shared memory: {error.strerror}") from error
    try:
        try:
            os.ftruncate(memory, size)
            mapping = mmap.mmap(memory, size)
        except OSError as error:
            raise LimitReachedError(f"{size} bytes of shared memory are not to be had: {error.strerror}") from error
        yield mapping, memory
    finally:
        # The mapping goes with the last numpy view of it; closing it here would be refused.
        os.close(memory)


def _nameless() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("synth-run", os.MFD_CLOEXEC)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def run_job(job: Job, memory: int) -> dict[str, Any]:
    """Run a job in processes of its own.

    Parameters
    ----------
    job
        The program.
    memory
        File descriptor of the shared memory, with the inputs in place.

    Returns
    -------
    dict
        ``outcome`` (done, hang, timeout, fault, died), ``wall_s``, and for the last two ``rank`` and ``text``.

    Raises
    ------
    LimitReachedError
        When the processes cannot be started or do not answer.
    """
    lifeline, held = os.pipe()
    try:
        process = _start(memory, lifeline)
        try:
            out, err = process.communicate(job.to_bytes(), timeout=job.timeout + _GRACE_S)
        except subprocess.TimeoutExpired:
            raise LimitReachedError("the emulator's processes do not answer") from None
        finally:
            os.close(held)
            held = -1
            _bury(process)
    finally:
        os.close(lifeline)
        if held >= 0:
            os.close(held)
    return _outcome(process.returncode, out, err)


def _outcome(code: int, out: bytes, err: bytes) -> dict[str, Any]:
    if code < 0:
        raise LimitReachedError(f"the emulator was ended by signal {-code} (out of memory?)")
    outcome: dict[str, Any] = json.loads(out) if code == 0 else {"outcome": "crash", "text": err.decode()}
    if outcome["outcome"] in ("crash", "cancelled"):
        raise RuntimeError(f"the emulator failed, which is a defect of synth:\n{outcome.get('text', '')}")
    return outcome


def _start(memory: int, lifeline: int) -> subprocess.Popen[bytes]:
    folder = str(Path(job_module.__file__).parent)
    path = [entry for entry in sys.path if entry]
    try:
        return subprocess.Popen(
            [sys.executable, "-I", "-c", _BOOTSTRAP, json.dumps([folder, path, memory, lifeline])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=(memory, lifeline),
            # One thread, so that the launcher may fork; and numpy's own threads would only be in the ranks' way.
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
            # Ctrl-C goes to the user's process alone, which then ends the others in order.
            start_new_session=True,
        )
    except OSError as error:
        raise LimitReachedError(f"the emulator's processes cannot be started: {error.strerror}") from error


def _bury(process: subprocess.Popen[bytes]) -> None:
    """Make sure that the launcher and all ranks are gone. The lifeline is closed already, which ends them in order."""
    try:
        process.wait(_FAREWELL_S)
    except subprocess.TimeoutExpired:
        pass
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()
