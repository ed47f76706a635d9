"""Every message size: winners merged into few files with size ranges."""
