from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from phrasemate.cli import app

REASON = "Ray and Lance are not installed (pip install 'phrasemate[ray]')"
sys.path[:0] = [str(Path(__file__).parents[1] / name) for name in ("index", "encode")]  # index_fakes, encoders


@pytest.fixture(scope="session")
def cluster() -> Iterator[str]:
    """The address of a real Ray cluster of two CPUs on this machine."""
    ray = pytest.importorskip("ray", reason=REASON)
    pytest.importorskip("lance", reason=REASON)
    folder = Path(tempfile.mkdtemp(prefix="pm", dir="/tmp"))  # names of sockets are short
    variables = {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0", "OMP_NUM_THREADS": "1"}
    variables["RAY_worker_niceness"] = "0"  # they give way to all else by default, and stand still then
    here = Path(__file__).parent
    variables["PYTHONPATH"] = os.pathsep.join([str(here), *filter(None, [os.environ.get("PYTHONPATH")])])
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        ray.init(
            num_cpus=2,
            object_store_memory=80 << 20,
            include_dashboard=False,
            log_to_driver=False,
            logging_level="ERROR",
            _temp_dir=str(folder),
        )
        try:
            yield ray.get_runtime_context().gcs_address
        finally:
            ray.shutdown()
            shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model that workers can load."""
    import encoders

    from phrasemate.encode.export.export import export_model

    base = tmp_path_factory.mktemp("tiny")
    export_model(encoders.save_bert(base / "hf"), base / "model", layers=[encoders.DEPTH])
    return base / "model"


@pytest.fixture
def invoke() -> Callable[..., Any]:
    return lambda *arguments: CliRunner().invoke(app, [str(part) for part in arguments], prog_name="phrasemate")
