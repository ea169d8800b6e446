"""A headless Chromium that tests look at pages with, by its DevTools protocol over a pipe."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Iterator

PROGRAM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
WAIT = 60
"""Seconds that a busy machine may take for anything."""


class Tab:
    """A page; ``errors`` has what its scripts threw and what its policy blocked."""

    def __init__(self, to: int, answers: int) -> None:
        self.to, self.answers = to, answers
        self.number, self.left, self.session = 0, b"", None
        self.errors: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Runtime", "Log", "Page"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """The answer to a command of the protocol."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        message |= {"sessionId": self.session} if self.session else {}
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while (answer := self._read()).get("id") != self.number:
            told = answer.get("params", {})
            if "exceptionDetails" in told or told.get("entry", {}).get("level") == "error":
                self.errors.append(json.dumps(told))
        assert "error" not in answer, answer
        return answer["result"]

    def value(self, expression: str) -> Any:
        """What an expression is in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def until(self, expression: str) -> None:
        """Wait until an expression holds."""
        begin = time.monotonic()
        while not self.value(expression):
            assert time.monotonic() - begin < WAIT, f"{expression}; {self.errors}"
            time.sleep(0.01)

    def go(self, file: Path) -> None:
        """Open a page of the disk."""
        self.call("Page.navigate", url=file.resolve().as_uri())

    def press(self, key: str) -> None:
        """A key that is pressed and let go."""
        text = {"text": key} if len(key) == 1 else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        """A ``mousePressed``, ``mouseMoved``, ``mouseReleased`` or ``mouseWheel`` somewhere."""
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self.left:
            part = os.read(self.answers, 2**20)
            assert part, "the browser has ended"
            self.left += part
        message, _, self.left = self.left.partition(b"\0")
        return json.loads(message)


@contextlib.contextmanager
def tab(width: int = 1200, height: int = 900) -> Iterator[Tab]:
    """A tab of a browser of its own, which ends with it."""
    commands, to = os.pipe()
    answers, back = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        # The protocol wants the pipes as files 3 and 4, whatever numbers they have here.
        line = f'exec "$0" "$@" 3<&{commands} 4>&{back}'
        options = "--headless --no-sandbox --disable-gpu --remote-debugging-pipe".split()
        options += [f"--user-data-dir={profile}", f"--window-size={width},{height}"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        words = ["bash", "-c", line, PROGRAM, *options]
        browser = subprocess.Popen(words, pass_fds=(commands, back), **quiet)
        os.close(commands)
        os.close(back)
        try:
            yield Tab(to, answers)
        finally:
            os.close(to)
            os.close(answers)
            browser.terminate()
            browser.wait()
