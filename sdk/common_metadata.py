"""The metadata that both distributions have in common: a hook of hatchling for the two files pyproject.toml.

The version is not here: both read it from `minutehand/version.py`.
"""

from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

PROJECT_URL = "https://minutehand.example"
"""Where the repository is published. A reserved name until there is an address: this is the one place to write it."""
URLS = {
    "Repository": PROJECT_URL,
    "Documentation": f"{PROJECT_URL}/blob/main/README.md",
    "Changelog": f"{PROJECT_URL}/blob/main/CHANGELOG.md",
}


class CommonMetadata(MetadataHookInterface):
    """Adds the URLs, and to the server's dependencies the SDK of exactly the same version."""

    def update(self, metadata: dict[str, Any]) -> None:
        metadata["urls"] = URLS
        if "dependencies" in metadata["dynamic"]:
            sdk = f"minutehand=={metadata['version']}"
            metadata["dependencies"] = [sdk, *self.config["dependencies"]]
