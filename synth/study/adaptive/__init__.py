"""Splits that adapt while capacities change."""
