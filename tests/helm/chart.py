"""Renders the chart with the pinned Helm into plain documents."""

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from minutehand.local import ProgressLines
from tests.support.chart_reference import CHART
from tests.support.helm_binary import HelmUnavailable, ensure_helm

VALUES = Path(__file__).with_name("values")
VALUES_FILES = sorted(path.stem for path in VALUES.glob("*.yaml"))
KUBERNETES = ("1.27.0", "1.37.0")
"""The oldest version that the chart supports, and the newest whose schemas are installed."""
RELEASE, NAMESPACE = "shop", "callbacks"

Document = dict[str, Any]


class Refused(Exception):
    """Helm ended with an error; the message is what a user reads."""


@dataclass(frozen=True, slots=True)
class Chart:
    """`helm`: path of the program."""

    helm: Path

    def render(
        self,
        values: str | None,
        *more: Path | str,
        release: str = RELEASE,
        kubernetes: str = KUBERNETES[-1],
        show: str | None = None,
    ) -> list[Document]:
        """Run `helm template` with a values file of this suite (None: only the chart's own), further files, and
        settings as `--set` takes them. Raises Refused.
        """
        only = [] if show is None else ["--show-only", show]
        text = self._run(
            *("template", release, str(CHART), "--namespace", NAMESPACE, "--kube-version", kubernetes),
            *(() if values is None else ("--values", str(VALUES / f"{values}.yaml"))),
            *(*only, *self._given(more)),
        )
        return [one for one in yaml.safe_load_all(text) if one is not None]

    def notes(self, values: str, scratch: Path) -> str:
        """The text that `helm install` prints at its end. Helm prints it only when it reaches a cluster, so a copy of
        the chart below `scratch` has it in a document.
        """
        copy = scratch / "minutehand"
        scratch.mkdir(exist_ok=True)
        shutil.copytree(CHART, copy)
        (copy / "templates" / "NOTES.txt").rename(copy / "notes")
        (copy / "templates" / "shown.yaml").write_text('notes: {{ tpl (.Files.Get "notes") . | quote }}')
        text = self._run(
            *("template", RELEASE, str(copy), "--namespace", NAMESPACE, "--kube-version", KUBERNETES[-1]),
            *("--values", str(VALUES / f"{values}.yaml"), "--show-only", "templates/shown.yaml"),
        )
        return str(yaml.safe_load(text)["notes"])

    def lint(self, values: str) -> str:
        return self._run(
            *("lint", str(CHART), "--strict", "--kube-version", KUBERNETES[-1]),
            *("--values", str(VALUES / f"{values}.yaml")),
        )

    def _run(self, *arguments: str) -> str:
        done = subprocess.run([str(self.helm), *arguments], capture_output=True, text=True, check=False, timeout=30)
        if done.returncode != 0:
            raise Refused(f"{done.stderr}{done.stdout}")
        return done.stdout

    @staticmethod
    def _given(more: Sequence[Path | str]) -> Iterator[str]:
        for one in more:
            yield from ("--values", str(one)) if isinstance(one, Path) else ("--set", one)


def chart_or_skip() -> Chart:
    """Helm is built at its first use on this machine, which takes minutes. Skips the test if it cannot be built."""
    try:
        return Chart(ensure_helm(ProgressLines()))
    except HelmUnavailable as error:
        pytest.skip(f"the chart was NOT checked: {error}")


def of_kind(documents: Sequence[Document], kind: str, name: str | None = None) -> list[Document]:
    """Documents of a kind, optionally only those whose name has this ending."""
    return [one for one in documents if one["kind"] == kind and one["metadata"]["name"].endswith(name or "")]


def pod_templates(documents: Sequence[Document]) -> dict[str, Document]:
    """Every pod template of the chart's objects, by kind and name."""
    found = {}
    for one in documents:
        spec = one.get("spec", {})
        template = {
            "Deployment": lambda spec=spec: spec["template"],
            "StatefulSet": lambda spec=spec: spec["template"],
            "Job": lambda spec=spec: spec["template"],
            "CronJob": lambda spec=spec: spec["jobTemplate"]["spec"]["template"],
            "Pod": lambda one=one: one,
        }.get(one["kind"])
        if template is not None:
            found[f"{one['kind']}/{one['metadata']['name']}"] = template()
    return found


def environment(container: Document) -> dict[str, Any]:
    """A container's variables by name: the value, or its source."""
    return {one["name"]: one.get("value", one.get("valueFrom")) for one in container.get("env", [])}


def matches(selector: Document, labels: Document) -> bool:
    """Whether the labels match, by the rule of `matchLabels`."""
    return bool(selector) and selector.items() <= labels.items()
