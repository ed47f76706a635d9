"""Speeds that cannot be: bridges of virtual machines that report 2.5 GT/s x1 above devices of 16 lanes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from synth.ground.units import format_bandwidth
from synth.topology.box.hardware import Rate
from synth.topology.box.parts import Box, Gpu, Nic, PcieSwitch

#: First word of what is said of such a bridge.
IMPLAUSIBLE = "implausible"
#: A bridge that has less than this part of the speed of a device below it is not believed. Real switches are narrower
#: by 2 or 4 at the most; 2.5 GT/s x1 above x16 of 8 GT/s is 63 times.
_LEAST_SHARE = 1 / 8


def with_plausible_uplinks(box: Box, note: Callable[[str, str], None]) -> Box:
    """The box with bridges that are far too slow for what is below them at the speed of the fastest device there.

    Virtual machines report the link of an emulated bridge, which no byte passes. A link-speed table with the bridge's
    bus id in ``elements`` overrides it.
    """
    return replace(box, switches=tuple(_believed(box, switch, note) for switch in box.switches))


def _believed(box: Box, switch: PcieSwitch, note: Callable[[str, str], None]) -> PcieSwitch:
    below: list[Rate] = []
    devices: tuple[Gpu | Nic, ...] = (*box.gpus, *box.nics)
    for part in devices:
        if part.port is not None and any(above.id == switch.id for above in box.above(part.parent)):
            below.append(part.port)
    fastest = max(below, key=lambda rate: rate.nominal, default=None)
    if switch.uplink is None or fastest is None or switch.uplink.nominal >= fastest.nominal * _LEAST_SHARE:
        return switch
    note(
        f"{IMPLAUSIBLE}: a PCIe bridge of {format_bandwidth(switch.uplink.nominal)} above a device of "
        f"{format_bandwidth(fastest.nominal)}, as virtual machines report; taken at the device's speed (a link-speed "
        "table with the bridge in elements overrides it)",
        switch.name or switch.id,
    )
    return replace(switch, uplink=fastest)
