"""PCI devices as NCCL's and hwloc's files name them: bus ids, class numbers, numbers in attributes."""

from __future__ import annotations

import re

from synth.files.xml_tree import Element
from synth.topology.box.hardware import Rate, pcie_rate

GPU_CLASSES = ("0x03", "0x12")
NIC_CLASSES = ("0x02",)
SWITCH_CLASSES = ("0x0604", "0x0801")
NVSWITCH_CLASS = "0x0680"
CPU_LINK_CLASS = "0x068001"

#: Largest network speed that is believed, Mb/s: four ports of 800 Gb/s. Some drivers report kb/s.
_FASTEST_MBPS = 3_200_000
_NUMBER = re.compile(r"[+-]?[0-9]{1,18}(\.[0-9]{1,18})?")


def bus_id(text: str) -> str:
    """Bus id in one spelling: lower case, without leading zeros of a long domain (``00000000:0f:00.0``)."""
    text = text.strip().lower()
    match = re.fullmatch(r"0000([0-9a-f]{4}:.*)", text)
    return match[1] if match else text


def whole(element: Element, name: str, faults: list[str]) -> int | None:
    """Whole number of an attribute; None if it is missing or empty; a fault if it is something else."""
    text = element.get(name)
    if not text:
        return None
    if re.fullmatch(r"[+-]?[0-9]{1,18}", text):
        return int(text)
    faults.append(f"{element.at}: {element.tag} {name}={text!r} is not a whole number")
    return None


def number(element: Element, name: str, faults: list[str]) -> float | None:
    """Number of an attribute; None if it is missing or empty; a fault if it is something else."""
    text = element.get(name)
    if not text:
        return None
    if _NUMBER.fullmatch(text):
        return float(text)
    faults.append(f"{element.at}: {element.tag} {name}={text!r} is not a number")
    return None


def link_rate(pci: Element, faults: list[str]) -> Rate | None:
    """PCIe rate of ``link_speed`` and ``link_width``; None where a virtual machine left them empty or zero."""
    speed, width = pci.get("link_speed"), whole(pci, "link_width", faults)
    where = f"{pci.at}: pci {pci.get('busid')}"
    if not speed or speed.lower().startswith("unknown") or not width:
        return None
    match = re.match(r"([0-9]{1,3}(?:\.[0-9])?) *GT/s", speed)
    if match is None or width < 1 or width > 32:
        faults.append(f"{where}: link_speed={speed!r} link_width={width}: expected such as '16.0 GT/s PCIe' and 16")
        return None
    rate = pcie_rate(float(match[1]), width)
    if rate is None:
        faults.append(f"{where}: link_speed={speed!r} is no PCIe generation; use 2.5, 5, 8, 16, 32 or 64 GT/s")
    return rate


def network_rate(net: Element, faults: list[str]) -> float | None:
    """Bytes/second of a ``net`` element's speed in Mb/s; None if it is missing or not positive."""
    speed = number(net, "speed", faults)
    if speed is None or speed <= 0:
        return None
    if speed > _FASTEST_MBPS:
        faults.append(
            f"{net.at}: net {net.get('name')!r}: speed={net.get('speed')} is in Mb/s, and no NIC is that fast: perhaps "
            f"{speed / 1000:g} is meant; correct it in the file"
        )
        return None
    return speed * 1e6 / 8
