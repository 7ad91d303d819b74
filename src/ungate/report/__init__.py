"""One self-contained HTML page and a Markdown summary of a run, made from its JSON document."""

from ungate.report.page import render
from ungate.report.summary import summary

__all__ = ["render", "summary"]
