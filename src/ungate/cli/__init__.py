"""One command a file; a command formats records and decides nothing."""
