"""The front door: the SDK, the command line, and the wiring of every other room.

Two distributions install files here: `minutehand` this one, `client`, `webhooks` and `version`; `minutehand-server` all
others. They may be in different places, as where the SDK was there before a virtual environment.
"""

from pkgutil import extend_path

__path__ = extend_path(__path__, __name__)
