"""From a question in a Python file to a draft: what the patterns that report questions have in common."""

from __future__ import annotations

from ungate.model import Form
from ungate.scan.draft import CHOICE, Draft, left
from ungate.source.python.file import PythonFile
from ungate.source.python.questions import Question

__all__ = ["asked"]


def asked(
    file: PythonFile, question: Question, role: str, form: Form = Form.PYTHON_EXPRESSION, note: str = ""
) -> Draft:
    """The gate that a question is. ``role`` gives way to ``choice`` where both branches do the same."""
    within = "" if question.within is None else left(question.within)
    choice = CHOICE if question.choice else ""
    return Draft(
        line=question.line,
        end_line=question.end_line,
        condition=question.condition,
        text=" ".join(file.module.text(question.span).split()),
        role="choice" if question.choice else role,
        form=form,
        span=question.span,
        sense=question.sense,
        symbol=question.symbol,
        names=question.names,
        kind="error-raise" if question.context == "assert" else "",
        note="; ".join(filter(None, (note, choice, within))),
    )
