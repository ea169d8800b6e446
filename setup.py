"""All metadata of the package; pyproject.toml holds the settings of tools only."""

import re
import shutil
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).parent
VERSION = re.search(
    r'^__version__ = "(.+)"$',
    (HERE / "graphgym_srnc/__init__.py").read_text(encoding="utf-8"),
    re.M,
)[1]
README = HERE / "README.md"

EXTRAS = {
    "ray": ["ray>=2.50"],
    "tune": ["optuna>=4.0"],
    "parquet": ["pyarrow>=14"],
    "excel": ["openpyxl>=3.1"],
    "docs": ["mkdocs-material>=9.5", "mkdocstrings[python]>=0.26", "latex2mathml>=3.77"],
    "dev": [
        "build>=1.0.3",
        *("griffe>=1.0", "latex2mathml>=3.77", "mkdocs>=1.6"),  # of docs/site.py, which tests read
        "hypothesis>=6.100",
        "ipykernel>=6.29",
        "basedpyright>=1.20",
        "mypy>=1.11",
        "nbclient>=0.10",
        "psutil>=5.9.6",
        "pytest>=8.0",
        "pytest-xdist>=3.5",
        "ruff>=0.5",
        "statsmodels>=0.14",
    ],
}
EXTRAS["dev"] += EXTRAS["tune"] + EXTRAS["parquet"] + EXTRAS["excel"]  # which tests use


class BuildWithConfigs(build_py):
    """Copies ``configs_gym/``, which stays where GraphGym's users look for it, into the package.

    A package in a folder of another name would make an editable install an import hook, which
    editors and type checkers do not follow.
    """

    def run(self):
        super().run()
        if not self.editable_mode:
            copy = Path(self.build_lib, "graphgym_srnc", "configs_gym")
            for pattern in ("*.yaml", "*.txt"):
                for file in (HERE / "configs_gym").rglob(pattern):
                    place = copy / file.relative_to(HERE / "configs_gym")
                    place.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(file, place)


setup(
    name="graphgym-srnc",
    version=VERSION,
    description="Node classification under distribution shift (SRNC and its rivals) as a plug-in "
    "of PyTorch Geometric's GraphGym",
    long_description=README.read_text(encoding="utf-8") if README.exists() else "",
    long_description_content_type="text/markdown",
    author="The graphgym-srnc authors",
    license="MIT",
    license_files=["LICENSE"],
    keywords=[
        "graph neural networks",
        "distribution shift",
        "open-set",
        "node classification",
        "GraphGym",
        "PyTorch Geometric",
    ],
    classifiers=[
        "Development Status :: 4 - Beta",
        "Intended Audience :: Science/Research",
        "Operating System :: OS Independent",
        "Programming Language :: Python :: 3 :: Only",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
    ],
    python_requires=">=3.10",
    packages=find_packages(include=["graphgym_srnc", "graphgym_srnc.*"]),
    package_dir={"": "."},  # without it, an editable install is such a hook too
    cmdclass={"build_py": BuildWithConfigs},
    package_data={
        "graphgym_srnc": ["py.typed", "*.pyi"],
        "graphgym_srnc.api": ["*.md"],
        "graphgym_srnc.cli": ["help.txt"],
        "graphgym_srnc.report": ["*.html"],
        "graphgym_srnc.data": ["*.csv", "*.sha256"],
        "graphgym_srnc.own": ["*.txt"],
        "graphgym_srnc.own.discover": ["*.html", "map.js"],
    },
    install_requires=[
        # Not torch-geometric[graphgym]: that extra pins protobuf<4.21 and leaves out tensorboardX,
        # which GraphGym's agg_runs needs.
        "torch>=2.13",
        "torch-geometric>=2.6.1",
        "yacs>=0.1.8",
        "pyyaml>=6.0.1",
        "pytorch-lightning>=2.4",
        "tensorboard>=2.17",
        "tensorboardX>=2.6.2.2",
        "scikit-learn>=1.4.2",
        "scipy>=1.15",
        "numpy>=1.26.4",
        "pandas>=2.1.4",
        "rich>=13.7",
        "matplotlib>=3.8",
        "jinja2>=3.1.3",
        "filelock>=3.16.1",
        "safetensors>=0.4.3",
        "ogb>=1.3.6",
    ],
    extras_require={
        **EXTRAS,
        "all": sorted({requirement for extra in EXTRAS.values() for requirement in extra}),
    },
    entry_points={"console_scripts": ["graphgym-srnc = graphgym_srnc.cli.main:main"]},
)
