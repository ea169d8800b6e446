"""A headless Chromium that tests look at pages with."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

PROGRAM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)

HARNESS = """
const errors = [];
addEventListener("error", event => errors.push(event.message));
addEventListener("securitypolicyviolation", event => errors.push(event.violatedDirective));
// Virtual time draws no frames.
window.requestAnimationFrame = draw => setTimeout(draw, 10);
const pause = () => new Promise(done => setTimeout(done, 100));
addEventListener("load", async () => {
  let seen;
  try { seen = await (async () => { %s })(); } catch (error) { errors.push(String(error)); }
  const result = document.createElement("pre");
  result.id = "seen";
  result.textContent = JSON.stringify([seen ?? null, errors]);
  document.body.replaceChildren(result);
});"""


def look(page: str, script: str, folder: Path, width: int = 1200) -> Any:
    """What a script returns in a page, under the policy of the page, which must block nothing.

    ``await pause()`` in the script lets the page draw.
    """
    code = HARNESS % script
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    page = page.replace("; script-src '", f"; script-src 'sha256-{digest}' '", 1)
    file = folder / "looked_at.html"
    file.write_text(page.replace("<title>", f"<script>{code}</script><title>", 1))
    options = "--headless --no-sandbox --disable-gpu --virtual-time-budget=20000 --dump-dom"
    words = [PROGRAM, *options.split(), f"--window-size={width},900", file.resolve().as_uri()]
    shown = subprocess.run(words, capture_output=True, text=True, timeout=120).stdout
    seen, errors = json.loads(unescape(re.search(r'<pre id="seen">(.*?)</pre>', shown, re.S)[1]))
    assert not errors, errors
    return seen
