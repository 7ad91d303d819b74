"""The page in a real browser: nothing on the console, nothing fetched, nothing wider than a telephone."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.report.test_page import _document

from ungate.report import render

pytestmark = pytest.mark.browser

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-port=0",
]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Chromium's debugging socket."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    assert program, "The mark browser needs Chromium on PATH."
    profile = tmp_path_factory.mktemp("profile")
    log = (profile / "log").open("wb")
    process = subprocess.Popen([program, *FLAGS, f"--user-data-dir={profile}", "about:blank"], stdout=log, stderr=log)
    try:
        end = time.monotonic() + 60
        while time.monotonic() < end:
            found = re.search(r"DevTools listening on ws://([\d.:]+)/", (profile / "log").read_text(errors="replace"))
            if found:
                yield found[1]
                return
            time.sleep(0.1)
        pytest.fail("Chromium opened no debugging port within 60 s.")
    finally:
        process.kill()
        process.wait(20)
        log.close()


async def _visit(address: str, page: Path, width: int, scheme: str, script: str) -> tuple[Any, list[str], list[str]]:
    """The value of ``script`` on the page, what came on the console, and what the page asked for beside itself."""
    console: list[str] = []
    asked: list[str] = []
    async with aiohttp.ClientSession() as session:
        async with session.put(f"http://{address}/json/new?about:blank") as answer:
            target = await answer.json()
        async with session.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=0) as socket:
            number = 0

            async def call(method: str, **parameters: Any) -> Any:
                nonlocal number
                number += 1
                await socket.send_json({"id": number, "method": method, "params": parameters})
                while True:
                    message = json.loads((await socket.receive(30)).data)
                    match message.get("method"):
                        case "Runtime.consoleAPICalled" | "Runtime.exceptionThrown" | "Log.entryAdded":
                            console.append(json.dumps(message["params"])[:300])
                        case "Network.requestWillBeSent":
                            asked.append(message["params"]["request"]["url"])
                    if message.get("id") == number:
                        return message.get("result")

            for domain in ("Runtime", "Log", "Network", "Page"):
                await call(f"{domain}.enable")
            await call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
            await call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
            await call("Page.navigate", url=page.as_uri())
            for _ in range(100):
                ready = await call("Runtime.evaluate", expression="document.readyState + location.protocol")
                if ready["result"]["value"] == "completefile:":
                    break
                await asyncio.sleep(0.05)
            value = await call("Runtime.evaluate", expression=script, returnByValue=True)
    return value["result"]["value"], console, [url for url in asked if not url.startswith(("data:", page.as_uri()))]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    document = _document()
    # A long name of an arm is what a narrow page has to break.
    document["verdicts"].append(
        {**document["verdicts"][0], "arm": "flashinfer-python-0.6.17-and-another-package-1.2.3"}
    )
    # So are names and paths without a space, wherever they stand.
    long = "a_name_that_has_no_space_in_it_and_is_longer_than_a_telephone_is_wide_with_its_margins"
    document["chain"]["hops"][0]["symbol"] = document["findings"][0]["what"] = f"ServerArgs.{long}"
    document["guards"][0]["evidence"] = document["elsewhere"][0]["said"] = f"/cache/{long}/{long}.so"
    document["next"] = document["early"] = [f"Look at it: ls /cache/{long}"]
    path.write_text(render(document), encoding="utf-8")
    return path


@pytest.mark.parametrize("width", [400, 1200])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_is_quiet_and_is_whole(browser: str, page: Path, width: int, scheme: str) -> None:
    script = """({
      wide: document.documentElement.scrollWidth,
      sections: [...document.querySelectorAll('section')].map(s => s.id),
      plots: [...document.querySelectorAll('figure svg')].map(s => s.getBoundingClientRect().height),
      links: [...document.querySelectorAll('nav a')].every(a => document.querySelector(a.getAttribute('href'))),
      paper: getComputedStyle(document.body).backgroundColor,
    })"""
    seen, console, asked = asyncio.run(_visit(browser, page, width, scheme, script))
    assert console == [] and asked == []
    assert seen["wide"] <= width
    assert seen["sections"][0] == "verdict" and len(seen["sections"]) == 12
    assert len(seen["plots"]) == 3 and min(seen["plots"]) > 30
    assert seen["links"]
    dark = sum(map(int, re.findall(r"\d+", seen["paper"])[:3])) < 384
    assert dark == (scheme == "dark")
