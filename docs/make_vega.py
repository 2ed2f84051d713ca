"""Takes the charts' JavaScript out of vl-convert, so that a page needs no such package: `python docs/make_vega.py`."""

from pathlib import Path

import vl_convert

PLACE = Path(__file__).parents[1] / "src" / "seedscope" / "report" / "assets" / "vega.js"


def bundle() -> str:
    """Return the script with a line that says what it is, and whose."""
    lite = ".".join(vl_convert.get_vegalite_versions()[-1].split(".")[:2])
    parts = f"Vega {vl_convert.get_vega_version()}, Vega-Lite {lite}, Vega-Embed {vl_convert.get_vega_embed_version()}"
    rights = "BSD-3-Clause, University of Washington Interactive Data Lab; all licences: vega.LICENSE.txt"
    return f"/* {parts}, from vl-convert {vl_convert.__version__}. {rights} */\n{vl_convert.javascript_bundle()}\n"


if __name__ == "__main__":
    PLACE.write_text(bundle(), encoding="utf-8")
