"""A Markdown summary for an issue or a pull request."""

from __future__ import annotations

from ungate.report.sections import Document

__all__ = ["summary"]


def _percent(ratio: float | None) -> str:
    return "unknown" if ratio is None else f"{(ratio - 1) * 100:+.1f} %"


def summary(document: Document) -> str:
    """The verdict table, the packages, the edited gates and the guards, in Markdown."""
    recipe = document.get("recipe") or {}
    packages = ", ".join(f"{p['name']} {p['version'] or 'unknown'}" for p in document.get("packages") or ())
    lines = [f"### {recipe.get('name', 'run')} for {document.get('target')}", "", f"Packages: {packages}.", ""]
    several = len({v.get("arm") for v in document.get("verdicts") or ()}) > 1
    if document.get("verdicts"):
        lines += ["| cell | verdict | change | interval | reason |", "|---|---|---|---|---|"]
        for v in document["verdicts"]:
            cell = v["cell"]
            name = f"{cell['concurrency']} at once, {cell['prompt_tokens']} in, {cell['output_tokens']} out"
            name += f", {v.get('arm', 'candidate')}" if several else ""
            interval = f"{_percent(v['low'])} to {_percent(v['high'])}"
            lines.append(f"| {name} | **{v['decision']}** | {_percent(v['ratio'])} | {interval} | {v['reason']} |")
        lines.append("")
    if document.get("cause"):
        lines += [document["cause"], ""]
    for guard in document.get("guards") or ():
        state = {True: "holds", False: "does not hold"}.get(guard["holds"], "not established")
        lines.append(f"- {guard['name']}: {state} ({guard['evidence']})")
    for edit in (document.get("series") or {}).get("edits", ()):
        lines.append(f"- opened `{edit['file']}`: {edit['why']}")
    return "\n".join(lines) + "\n"
