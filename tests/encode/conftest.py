from __future__ import annotations

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing may be fetched, whoever starts the tests

from pathlib import Path

import encoders
import pytest

from phrasemate.encode import Model, bundled_folder, load_model
from phrasemate.encode.export.export import export_model

ALL_LAYERS = list(range(encoders.DEPTH + 1))


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Hugging Face folders by family; not to be changed."""
    base = tmp_path_factory.mktemp("huggingface")
    return {"bert": encoders.save_bert(base / "bert"), "xlmr": encoders.save_xlmr(base / "xlmr")}


@pytest.fixture(scope="session")
def models(folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Model]:
    """The same, exported with every layer, loaded with one thread."""
    base = tmp_path_factory.mktemp("models")
    for name, folder in folders.items():
        export_model(folder, base / name, layers=ALL_LAYERS)
    return {name: load_model(base / name, threads=1) for name in folders}


@pytest.fixture(params=["bert", "xlmr"])
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def model(models: dict[str, Model], family: str) -> Model:
    return models[family]


@pytest.fixture(scope="session")
def bundled() -> Model:
    """The model that comes with the package, with one thread."""
    if not bundled_folder().exists():
        pytest.skip(f"no bundled model in {bundled_folder()}; phrasemate model export makes it")
    return load_model(threads=1)
