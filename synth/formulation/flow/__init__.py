"""The flow LP: roots, columns, resources, pricing, symmetry."""
