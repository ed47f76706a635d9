"""What a program claims to compute, and what a verification says of it: words of both compilers."""
