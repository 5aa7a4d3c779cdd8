"""The front door: the SDK, the command line, and the wiring of every other room.

Two distributions install files here: `minutehand` this one, `client`, `webhooks` and `version`; `minutehand-server` the
rest. They may lie in different directories, as when the SDK was installed before a virtual environment was made.
"""

from pkgutil import extend_path

__path__ = extend_path(__path__, __name__)
