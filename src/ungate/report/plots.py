"""Plots as inline SVG: Vega-Lite specifications, drawn without a browser, coloured through ``currentColor``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["intervals", "starts", "timeline"]

Row = Mapping[str, Any]

_ARMS = {"baseline": "#3b7fb5", "candidate": "#d0762b"}
_FURTHER = ("#5a9e5f", "#9a6fb0", "#b0506a", "#7a7a3c")  # arms beside these two, in the order they come
_INK = "currentColor"
_CONFIG: Mapping[str, Any] = {
    "background": "transparent",
    "font": "Liberation Sans, Arial, sans-serif",
    "padding": {"left": 28, "right": 8, "top": 6, "bottom": 6},
    "view": {"stroke": "transparent"},
    "axis": {
        "labelColor": _INK,
        "titleColor": _INK,
        "domainColor": _INK,
        "tickColor": _INK,
        "gridColor": _INK,
        "gridOpacity": 0.12,
        "domainOpacity": 0.4,
        "tickOpacity": 0.4,
        "titleFontWeight": "normal",
        "labelOverlap": "greedy",
        "tickCount": 6,
    },
    "legend": {"labelColor": _INK, "titleColor": _INK},
    "header": {"labelColor": _INK, "titleColor": _INK},
}


def _svg(specification: Mapping[str, Any], rows: Sequence[Row], label: str) -> str:
    import vl_convert

    whole = {"config": _CONFIG, "data": {"values": [dict(row) for row in rows]}, **specification}
    drawn: str = vl_convert.vegalite_to_svg(whole, vl_version="5.20")
    safe = re.sub(r"[^\w ,.:%()+-]", " ", label)
    return drawn[drawn.index("<svg") :].replace("<svg ", f'<svg role="img" aria-label="{safe}" ', 1)


def _by_arm(rows: Sequence[Row]) -> Mapping[str, Any]:
    others = [arm for arm in dict.fromkeys(row["arm"] for row in rows) if arm not in _ARMS]
    colours = {**_ARMS, **{arm: _FURTHER[place % len(_FURTHER)] for place, arm in enumerate(others)}}
    scale = {"domain": list(colours), "range": list(colours.values())}
    return {"field": "arm", "type": "nominal", "scale": scale, "legend": {"title": None}}


def starts(rows: Sequence[Row], unit: str) -> str:
    """The primary metric of every start, in the order they ran, one panel a cell.

    ``rows`` have cell, start (order), arm and value; the axis is logarithmic, since a collapse is a factor.
    """
    panel = {
        "width": 300,
        "height": 190,
        "mark": {"type": "point", "filled": True, "size": 70},
        "encoding": {
            "x": {"field": "start", "type": "ordinal", "title": "server start, in order", "axis": {"labelAngle": 0}},
            "y": {"field": "value", "type": "quantitative", "title": unit, "scale": {"type": "log"}},
            "color": _by_arm(rows),
        },
    }
    facet = {"field": "cell", "type": "nominal", "title": None}
    return _svg({"facet": facet, "columns": 2, "spec": panel}, rows, f"{unit} of each server start by arm and cell")


def intervals(rows: Sequence[Row]) -> str:
    """An arm over the baseline with its interval, a line a cell and arm; 1 is no difference."""
    arms = list(dict.fromkeys(row["arm"] for row in rows))
    above = arms[0] if len(arms) == 1 else "arm"
    across = {"type": "quantitative", "scale": {"type": "log"}, "title": f"{above} / baseline"}
    cell = {"field": "cell", "type": "nominal", "title": None, "axis": {"labelLimit": 300}}
    colour = {**_by_arm(rows), "legend": None}
    layers = [
        {
            "data": {"values": [{"one": 1}]},
            "mark": {"type": "rule", "strokeDash": [4, 4], "color": _INK},
            "encoding": {"x": {"field": "one", **across}},
        },
        {
            "mark": {"type": "rule", "strokeWidth": 3},
            "encoding": {"y": cell, "x": {"field": "low", **across}, "x2": {"field": "high"}, "color": colour},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 90},
            "encoding": {"y": cell, "x": {"field": "ratio", **across}, "color": colour},
        },
    ]
    shape = {"width": 520, "height": max(60, 42 * len(rows))}
    return _svg({**shape, "layer": layers}, rows, "ratio and interval of each cell")


def timeline(rows: Sequence[Row], title: str) -> str:
    """One reading over the seconds of a start, a line a start; ``rows`` have seconds, value, arm and start."""
    encoding = {
        "x": {"field": "seconds", "type": "quantitative", "title": "seconds since the start's load began"},
        "y": {"field": "value", "type": "quantitative", "title": None},
        "color": _by_arm(rows),
        "detail": {"field": "start", "type": "nominal"},
    }
    mark = {"type": "line", "strokeWidth": 1.6}
    return _svg({"width": 600, "height": 150, "mark": mark, "encoding": encoding}, rows, f"{title} over time")
