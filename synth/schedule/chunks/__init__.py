"""From splits to whole chunks in an order that a runtime can follow."""
