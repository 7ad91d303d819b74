"""The ledger: every run, its steps written ahead, its samples and its verdict, in SQLite or PostgreSQL."""

from ungate.record.ledger import Ledger
from ungate.record.rows import Hypothesis, Row, Step

__all__ = ["Hypothesis", "Ledger", "Row", "Step"]
