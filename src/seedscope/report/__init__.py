"""What an audit found, shown: a web page, JSON, CSV and charts. Nothing here computes a result.

Names are imported when they are used: Altair and Jinja2 are only loaded when something is drawn.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
