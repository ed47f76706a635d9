"""The linear program: roots, columns, resources, pricing."""
