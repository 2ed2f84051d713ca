"""Takes the README's picture of a report: `python docs/make_picture.py PAGE PICTURE`."""

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

page_path, picture = Path(sys.argv[1]).resolve(), sys.argv[2]
with sync_playwright() as playwright:
    flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=flags)
    page = browser.new_page(viewport={"width": 1360, "height": 1500})
    page.goto(page_path.as_uri())
    page.wait_for_timeout(2000)
    page.screenshot(path=picture)
    browser.close()
