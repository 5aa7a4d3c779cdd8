"""The metadata that both distributions share: a hook of hatchling for both files pyproject.toml.

The version is not here: both read it from `minutehand/version.py`.
"""

from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

PROJECT_URL = "https://minutehand.example"
"""Address of the repository. A reserved name until it is published: this is the only place to change."""
URLS = {
    "Repository": PROJECT_URL,
    "Documentation": f"{PROJECT_URL}/blob/main/README.md",
    "Changelog": f"{PROJECT_URL}/blob/main/CHANGELOG.md",
}


class CommonMetadata(MetadataHookInterface):
    """Adds the URLs, and for the server a dependency on the SDK of exactly the same version."""

    def update(self, metadata: dict[str, Any]) -> None:
        metadata["urls"] = URLS
        if "dependencies" in metadata["dynamic"]:
            sdk = f"minutehand=={metadata['version']}"
            metadata["dependencies"] = [sdk, *self.config["dependencies"]]
