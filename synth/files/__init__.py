"""Files: bounded reading, strict JSON and XML with positions, faults with lines, atomic writing."""
