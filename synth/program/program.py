"""The verified program: it cannot exist unverified."""
