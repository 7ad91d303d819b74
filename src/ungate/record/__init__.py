"""The ledger: every run, its steps written ahead, its samples and its verdict, in one SQLite file."""

from ungate.record.ledger import Ledger, Row

__all__ = ["Ledger", "Row"]
