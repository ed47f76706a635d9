"""``synth topology list | machines | show | check | import``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from synth.cli.support import say

topology_app = typer.Typer(no_args_is_help=True, help="List, show, check and import topologies.")


@topology_app.command("list")
def topology_list() -> None:
    """List the built-in topologies with their parameters and sources."""
    from synth.topology import describe_builtins

    table = Table("name", "parameters (default)", "what it is", "numbers from")
    for item in describe_builtins():
        given = ", ".join(f"{p.name} ({p.write(p.default) if p.default is not None else '-'})" for p in item.parameters)
        table.add_row(item.name, given, item.summary, item.source)
    Console(width=None if sys.stdout.isatty() else 160).print(table)


@topology_app.command("machines")
def topology_machines(
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder to write them to, two files each.")] = None,
) -> None:
    """List the catalogue of whole boxes, or write it as topology files with nominal and achievable capacities."""
    from synth.files.writing import write_files
    from synth.topology import catalogue
    from synth.topology.catalogue.files import catalogue_files

    if out is not None:
        for path in write_files(out, catalogue_files()):
            say(str(path))
        return
    table = Table("name", "what it is", "numbers from")
    for entry in catalogue().values():
        table.add_row(entry.name, entry.summary, entry.source)
    Console(width=None if sys.stdout.isatty() else 160).print(table)


@topology_app.command("show")
def topology_show(
    topology: Annotated[str, typer.Argument(help="A topology file or a built-in name.")],
    paths: Annotated[str | None, typer.Option(help="Path kinds to keep: nvlink,pcie,host,nic.")] = None,
    capacities: Annotated[str | None, typer.Option(help="nominal or achievable, of a built-in machine.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print it as a synth-topology/1 file.")] = False,
) -> None:
    """Show a topology: nodes, links by kind, resources; or as a file to start from."""
    from synth.topology import dump_topology, resolve
    from synth.topology.describe import describe_topology
    from synth.topology.paths import parse_groups, select_paths

    machine = resolve(topology, capacities)
    if paths is not None:
        machine = select_paths(machine, parse_groups(paths))
    say(dump_topology(machine).rstrip("\n") if as_json else describe_topology(machine))


@topology_app.command("check")
def topology_check(
    file: Annotated[str, typer.Argument(help="A topology file (or a built-in name).")],
) -> None:
    """Check a topology file: all faults at once, then whether every GPU reaches every other."""
    from synth.topology import check_reachable, resolve

    machine = resolve(file)
    for note in machine.notes:
        say(f"note: {note}")
    ranks = range(len(machine.gpus))
    check_reachable(machine, [(a, b) for a in ranks for b in ranks if a != b])
    say(f"{machine.name}: {len(machine.gpus)} GPUs, {len(machine.links)} links: every GPU reaches every other")


@topology_app.command("import")
def topology_import(
    file: Annotated[Path, typer.Argument(help="A file that the machine or another tool has written.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Topology file to write.")],
    kind: Annotated[
        str | None,
        typer.Option(
            help="nccl, nccl-log, hwloc, nvidia-smi, rocm-smi, amd-smi, teccl, taccl, astra-sim, simai or plain; "
            "default: found out."
        ),
    ] = None,
    gpu: Annotated[
        str | None,
        typer.Option(help="GPU, such as h100 or 'NVIDIA H100 80GB HBM3': NVLink and PCIe that the file leaves open."),
    ] = None,
    assume: Annotated[str | None, typer.Option(help="gen3, gen4, gen5, gen6 or a link-speed table (JSON).")] = None,
    paths: Annotated[str, typer.Option(help="Path kinds to keep.")] = "nvlink,pcie,host,nic",
    hosts: Annotated[int, typer.Option(help="Copies of the box, joined through their NICs.")] = 1,
    fabric: Annotated[str, typer.Option(help="switch (one for all NICs) or rail (one per NIC of a box).")] = "switch",
    capacities: Annotated[str, typer.Option(help="nominal or achievable.")] = "nominal",
    peer: Annotated[
        str, typer.Option(help="Peer access over PCIe: cpu (everywhere) or switch (not across a CPU).")
    ] = "cpu",
) -> None:
    """Import a machine's own topology file; every assumption is said on stderr and in the file's source."""
    from synth.topology import import_topology, save_topology
    from synth.topology.describe import describe_topology
    from synth.topology.paths import parse_groups

    machine = import_topology(
        file,
        kind,
        gpu=gpu,
        assume=assume,
        paths=parse_groups(paths),
        hosts=hosts,
        fabric=fabric,
        capacities=capacities,
        peer=peer,
    )
    save_topology(machine, out)
    for note in machine.notes:
        sys.stderr.write(f"note: {note}\n")
    say("\n".join(line for line in describe_topology(machine).split("\n") if not line.startswith("  note:")))
    say(str(out))
