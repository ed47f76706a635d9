"""Which thread blocks may break a limit in one of their steps: the fast question before the slow, worded answer."""

from __future__ import annotations

import numpy as np

from synth.program.msccl.columns import Columns, Flags
from synth.program.msccl.model import Draft
from synth.program.msccl.opcodes import PARSER_CHECKS_DST, PARSER_CHECKS_SRC, RECEIVES, SENDS
from synth.program.msccl.targets import Target


def suspicious_blocks(draft: Draft, target: Target, table: Columns) -> set[int]:
    """Positions of the blocks of ``table`` that need a look at each step; the others break no limit of their steps."""
    steps = _bad_steps(target, table) | _bad_nops(table)
    return set(table.block[steps].tolist()) | _fusing_blocks(target, table)


def _bad_steps(target: Target, table: Columns) -> Flags:
    real = ~table.are(("nop",))
    bad = (table.kind < 0) | (table.srcbuf < 0) | (table.dstbuf < 0) | (table.depid > target.max_dep_block)
    bad |= ~table.are(target.parsed_step_types)
    bad |= real & ((table.cnt < 1) | (table.cnt > target.max_count))
    bad |= table.are(SENDS) & (table.per_block("send")[table.block] < 0)
    bad |= table.are(RECEIVES) & (table.per_block("recv")[table.block] < 0)
    for checked, buffer, offset in (
        (PARSER_CHECKS_SRC, table.srcbuf, table.srcoff),
        (PARSER_CHECKS_DST, table.dstbuf, table.dstoff),
    ):
        bad |= (offset < -1) | (offset > target.max_offset)
        bad |= table.are(checked) & (offset >= table.sizes(buffer))
    return bad


def _bad_nops(table: Columns) -> Flags:
    """Nops that are last, signal, wait for nothing, or stand before a step that waits for nothing."""
    nop, last = table.are(("nop",)), table.last
    idle = table.depid < 0
    before_idle = np.append(~nop & idle, False)[1:]
    found: Flags = nop & (last | idle | table.hasdep | before_idle)
    return found


def _fusing_blocks(target: Target, table: Columns) -> set[int]:
    """Blocks with more merged ``re`` steps than one run may have, or with unequal counts among them."""
    real = np.flatnonzero(~table.are(("nop",)))
    a, b = real[:-1], real[1:]
    adds = table.are(("re",))
    fused = adds[a] & adds[b] & ~table.hasdep[a] & (table.depid[b] < 0) & (table.block[a] == table.block[b])
    for column in (table.dstbuf, table.dstoff, table.srcbuf):
        fused &= column[a] == column[b]
    unequal = table.block[b[fused & (table.cnt[a] != table.cnt[b])]]
    merged = np.bincount(table.block[b[fused]], minlength=1)
    return set(unequal.tolist()) | set(np.flatnonzero(merged >= target.max_fused_reductions).tolist())
