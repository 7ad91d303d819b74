"""ungate opens GPU features that inference stacks gate off by architecture, and proves whether they help."""

__version__ = "0.1.0"
