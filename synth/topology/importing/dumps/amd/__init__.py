"""AMD: rocm-smi --showtopo and amd-smi topology."""
