"""What pyproject.toml cannot say: the configs in the wheel, and links on the package index."""

import re
import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).parent


class BuildWithConfigs(build_py):
    """Copies ``configs_gym/``, which stays where GraphGym's users look for it, into the package.

    A package in a folder of another name would make an editable install an import hook, which
    editors and type checkers do not follow.
    """

    def run(self):
        super().run()
        if not self.editable_mode:
            copy = Path(self.build_lib, "graphgym_srnc", "configs_gym")
            shutil.copytree(HERE / "configs_gym", copy, dirs_exist_ok=True)


def cited(key: str) -> str:
    """A value of ``CITATION.cff``, the one place of the repository's address; "" = not there."""
    text = (HERE / "CITATION.cff").read_text(encoding="utf-8")
    found = re.search(rf"^{key}: (\S+)$", text, re.M)
    return found[1] if found else ""


def readme(repository: str, version: str) -> str:
    """The README without relative links, which lead nowhere on the package index.

    They become links to the release in the repository. Without a repository, pictures are left out
    and of links only the text remains.
    """
    text = (HERE / "README.md").read_text(encoding="utf-8")
    relative = r"\[([^\]]*)\]\((?![a-z]+:)([^)]+)\)"
    if not repository:
        text = re.sub(rf"!{relative}\n*", "", text)
        return re.sub(relative, r"\1", text)
    text = re.sub(f"!{relative}", rf"![\1]({repository}/raw/v{version}/\2)", text)
    return re.sub(relative, rf"[\1]({repository}/blob/v{version}/\2)", text)


REPOSITORY = cited("repository-code").rstrip("/")
URLS = {
    "Repository": REPOSITORY,
    "Issues": f"{REPOSITORY}/issues",
    "Changelog": f"{REPOSITORY}/blob/HEAD/CHANGELOG.md",
}

setup(
    cmdclass={"build_py": BuildWithConfigs},
    long_description=readme(REPOSITORY, cited("version")),
    long_description_content_type="text/markdown",
    project_urls=URLS if REPOSITORY else {},
)
