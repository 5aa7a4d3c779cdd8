"""The variables and files with which Kubernetes would start a container."""

import re
from collections.abc import Sequence
from pathlib import Path

from tests.helm.chart import Document, of_kind

FIELDS = {"metadata.name": "shop-minutehand-node-1", "status.podIP": "10.1.2.3"}
SECRET = "what-the-secret-holds-{}"


def start(pod: Document, documents: Sequence[Document], root: Path) -> dict[str, str]:
    """Variables that begin with MINUTEHAND_. Files are written below `root`, and paths in the variables are changed to
    it. Everything that the pod names must exist: a ConfigMap among `documents`, a volume for every mount.
    """
    container = pod["spec"]["containers"][0]
    volumes = {one["name"]: one for one in pod["spec"]["volumes"]}
    places = {mount["mountPath"]: volumes[mount["name"]] for mount in container["volumeMounts"]}
    for place, volume in places.items():
        directory = root / place.strip("/")
        directory.mkdir(parents=True, exist_ok=True)
        for name, content in _files(volume, documents).items():
            (directory / name).write_text(content)
    values: dict[str, str] = {}
    for one in container["env"]:
        value = _value(one)
        value = re.sub(r"\$\((\w+)\)", lambda found: values[found[1]], value)
        below = any(value.startswith(f"{place}/") for place in places)
        values[one["name"]] = f"{root}{value}" if below else value
    return {name: value for name, value in values.items() if name.startswith("MINUTEHAND_")}


def _files(volume: Document, documents: Sequence[Document]) -> dict[str, str]:
    if "configMap" in volume:
        (map_,) = [
            one for one in of_kind(documents, "ConfigMap") if one["metadata"]["name"] == volume["configMap"]["name"]
        ]
        return dict(map_["data"])
    items = volume.get("secret", {}).get("items", [])
    return {one["path"]: f"{SECRET.format(one['key'])}\n" for one in items}


def _value(variable: Document) -> str:
    if "value" in variable:
        return str(variable["value"])
    return FIELDS[variable["valueFrom"]["fieldRef"]["fieldPath"]]
