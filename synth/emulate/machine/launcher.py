"""The parent of the ranks: starts them, watches them, and takes them along when it ends.

It is single-threaded and holds nothing but numpy, so it may fork, which costs a rank milliseconds instead of an
interpreter's start. It ends its ranks when they are done, hang or fail, when the time is up, and when the other end of
the ``lifeline`` pipe closes: that happens however the user's process dies.
"""

from __future__ import annotations

import json
import mmap
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from .job import FINISHED, Control, Job, elements_of, memory_size
from .rank import ProgramError, Rank

_LOOK_S: Final = 0.02
_LINE: Final = 3000


def main(memory: int, lifeline: int) -> None:
    """Read a job from stdin, run it, and print the outcome as JSON.

    Parameters
    ----------
    memory, lifeline
        Inherited file descriptors: the shared memory, and the reading end of a pipe that the user's process holds.
    """
    job = Job.from_bytes(sys.stdin.buffer.read())
    mapping = mmap.mmap(memory, memory_size(job))
    os.close(memory)
    sys.stdout.write(json.dumps(_Launcher(job, mapping, lifeline).run()))


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """Event counts at one moment at which no rank worked."""

    received: bytes
    sent: bytes


class _Launcher:
    """Processes of one run."""

    def __init__(self, job: Job, mapping: mmap.mmap, lifeline: int) -> None:
        self.job, self.lifeline, self.mapping = job, lifeline, mapping
        self.control = Control.of(mapping, job)
        self.children: dict[int, int] = {}
        self.report, self.say = os.pipe()
        self.heard = b""

    def run(self) -> dict[str, Any]:
        began = time.monotonic()
        try:
            self.start()
            outcome = self.watch(began)
        finally:
            self.stop()
        return {**outcome, "wall_s": time.monotonic() - began}

    def start(self) -> None:
        pipes = [os.pipe() for _ in self.job.ranks]
        for _, end in pipes:
            os.set_blocking(end, False)
        for rank, (inbox, _) in enumerate(pipes):
            pid = os.fork()
            if pid == 0:
                self.child(rank, inbox, [end for _, end in pipes])
            self.children[pid] = rank
        # The pipes stay open here, so that writing to a rank that has finished is no error.

    def child(self, rank: int, inbox: int, outboxes: Sequence[int]) -> None:
        """Body of a rank's process; never returns."""
        code, text = 1, ""
        try:
            with np.errstate(all="ignore"):
                Rank(self.job, rank, self.control, elements_of(self.mapping, self.job), inbox, outboxes).run()
            code = 0
        except ProgramError as fault:
            text = json.dumps({"outcome": "fault", "rank": rank, "text": str(fault)[:_LINE]})
        except BaseException:  # whatever it is, the launcher must hear of it, and a fork must not unwind further
            text = json.dumps({"outcome": "crash", "rank": rank, "text": traceback.format_exc()[-_LINE // 2 :]})
        finally:
            os.write(self.say, (text + "\n").encode())
            os._exit(code)

    def watch(self, began: float) -> dict[str, Any]:
        """Wait until it is over, one way or another."""
        watched = select.poll()
        for end in (self.report, self.lifeline):
            watched.register(end, select.POLLIN)
        before: _Snapshot | None = None
        ended = 0
        while ended < len(self.job.ranks):
            for end, _ in watched.poll(1000 * _LOOK_S):
                if end == self.lifeline:
                    return {"outcome": "cancelled"}
                for line in self.hear():
                    if line:
                        return dict(json.loads(line))
                    ended += 1
            lost = self.lost()
            if lost is not None:
                return lost
            now = self.stuck()
            if now is not None and now == before:
                return {"outcome": "hang"}
            before = now
            if time.monotonic() - began > self.job.timeout:
                return {"outcome": "timeout"}
        return {"outcome": "done"}

    def hear(self) -> list[bytes]:
        """Whole lines from the ranks: an empty one says that a rank is done, any other why it failed."""
        *lines, self.heard = (self.heard + os.read(self.report, 1 << 16)).split(b"\n")
        return lines

    def lost(self) -> dict[str, Any] | None:
        """A rank that ended without a word, for example because the machine ran out of memory."""
        for pid, rank in list(self.children.items()):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                del self.children[pid]
                # A rank that failed on its own terms has written why; that line is still to be read.
                if os.WIFSIGNALED(status):
                    return {"outcome": "died", "rank": rank, "text": f"signal {os.WTERMSIG(status)}"}
        return None

    def stuck(self) -> _Snapshot | None:
        """Event counts when nobody works and no event is under way.

        A rank that has finished reads its inbox no more, so what was sent to it does not count. Two equal snapshots in
        a row prove the hang: in between no rank took or sent an event, and without one no passive rank becomes active.
        """
        passive = self.control.passive.copy()
        if not passive.all() or (passive == FINISHED).all():
            return None
        live = passive != FINISHED
        received, sent = self.control.received.copy(), self.control.sent.copy()
        if (sent.sum(axis=0) != received)[live].any():
            return None
        return _Snapshot(received.tobytes(), sent.tobytes())

    def stop(self) -> None:
        for pid in self.children:
            os.kill(pid, signal.SIGKILL)
        for pid in self.children:
            os.waitpid(pid, 0)
        self.children.clear()
