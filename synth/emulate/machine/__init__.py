"""What the emulator's processes run.

The processes start from a fresh interpreter that loads this package by its folder, under another name: importing
``synth`` would cost each run the solver's imports. So only relative imports, the standard library and numpy here.
"""
