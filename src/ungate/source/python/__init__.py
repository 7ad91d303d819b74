"""Reading Python: modules, definitions, and what a named test comes to."""
