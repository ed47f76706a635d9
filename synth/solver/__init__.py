"""Solvers of the three problems, each with its solution and its proof."""
