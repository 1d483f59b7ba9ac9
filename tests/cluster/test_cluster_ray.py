"""A real Ray cluster of two worker processes: killed workers, a killed driver, object storage, the command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from time import monotonic, sleep
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("ray", reason="Ray is not installed (pip install 'phrasemate[ray]')")
pytest.importorskip("lance", reason="Lance is not installed (pip install 'phrasemate[ray]')")

from cluster_fakes import CHUNKS, SETTINGS, Deadly, Faulty, Fragile, Once, documents, rows_of

from phrasemate.encode import Model, load_model
from phrasemate.errors import ClusterError, ModelError
from phrasemate.index import Index
from phrasemate.index.lance.commit import staged
from phrasemate.index.lance.tables import Tables
from phrasemate.index.ray import Worker, build, connected, cpus
from phrasemate.search import Searcher


@pytest.fixture(scope="module")
def model(folder: Path) -> Model:
    return load_model(folder, threads=1)


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory, model: Model):
    """The one-machine index of the same documents."""
    with Index.create(tmp_path_factory.mktemp("one") / "idx", model, settings=SETTINGS, threads=1) as built_index:
        built_index.add(documents(), lang="en")
        yield built_index


class Busy:
    """Somebody else's actor."""

    def ping(self) -> bool:
        return True


def built(
    place: str | Path, address: str, model: Model, worker: type[Worker] = Worker, workers: int | None = 2
) -> Index:
    build(
        str(place),
        documents(),
        address,
        model=model,
        lang="en",
        workers=workers,
        settings=SETTINGS,
        chunks=CHUNKS,
        worker=worker,
    )
    return Index.open(place, model, settings=SETTINGS)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_worker_is_killed(cluster: str, tmp_path: Path, one: Index, model: Model, when: str) -> None:
    """Between writing and committing a shard, or between that and saying so: each row is there once."""
    notes = [Path(f"{tmp_path / 'idx'}.{when}-{number}") for number in (0, 2)]
    for note in notes:
        note.touch()
    built_index = built(tmp_path / "idx", cluster, model, Fragile)
    assert not any(note.exists() for note in notes), "the workers were not killed"
    assert rows_of(built_index) == rows_of(one)
    assert built_index.verify().problems == []


def test_the_driver_is_killed_and_started_again(cluster: str, tmp_path: Path, one: Index, model: Model) -> None:
    place = tmp_path / "idx"
    script = Path(__file__).with_name("killed_driver.py")
    result = subprocess.run([sys.executable, script, cluster, place, model.folder, "2"], capture_output=True, text=True)
    assert result.returncode == -signal.SIGKILL, result.stderr
    attempts = {shard.attempt for shard in staged(Tables(str(place), {}), 0)}
    assert len(attempts) >= 2
    built_index = built(place, cluster, model)
    assert rows_of(built_index) == rows_of(one)
    assert attempts <= {shard.attempt for shard in staged(Tables(str(place), {}), 0)}  # none of them was made again


def test_workers_that_get_no_cpu_are_not_waited_for(
    cluster: str, tmp_path: Path, one: Index, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    monkeypatch.setattr("phrasemate.index.ray.START_SECONDS", 2.0)
    places = [tmp_path / "more", tmp_path / "fewer"]

    def run() -> None:
        built(places[0], cluster, model, workers=5)  # on two CPUs
        busy = ray.remote(num_cpus=1)(Busy).remote()  # by somebody else
        ray.get(busy.ping.remote())
        built(places[1], cluster, model)
        ray.kill(busy)

    working = Thread(target=run, daemon=True)
    working.start()
    working.join(60)
    assert not working.is_alive(), "it waits"
    for place in places:
        assert rows_of(Index.open(place, model, settings=SETTINGS)) == rows_of(one)


def test_a_build_waits_for_a_cpu_and_says_so(
    cluster: str, tmp_path: Path, one: Index, model: Model, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    import ray

    monkeypatch.setattr("phrasemate.index.ray.START_SECONDS", 0.2)
    actors = [ray.remote(num_cpus=1)(Busy).remote() for _ in range(2)]  # somebody else's, on both CPUs
    ray.get([actor.ping.remote() for actor in actors])
    working = Thread(target=built, args=(tmp_path / "idx", cluster, model), daemon=True)
    working.start()
    end = monotonic() + 60
    while "no worker has started so far: all CPUs of the Ray cluster are in use" not in caplog.text:
        assert monotonic() < end, "it says nothing"
        sleep(0.1)
    for actor in actors:
        ray.kill(actor)
    working.join(60)
    assert not working.is_alive(), "it waits"
    assert rows_of(Index.open(tmp_path / "idx", model, settings=SETTINGS)) == rows_of(one)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        ("PhraseIndexError", "shard 1 failed (the disk hums); trying again"),
        ("RuntimeError", "shard 1 failed (RuntimeError: the disk hums); trying again"),
    ],
)
def test_a_shard_that_failed_is_made_again(
    cluster: str, tmp_path: Path, one: Index, model: Model, caplog: Any, error: str, message: str
) -> None:
    """Storage may answer the next time, and so may a library whose errors nobody knows."""
    Path(f"{tmp_path / 'idx'}.error").write_text(error, "utf-8")
    built_index = built(tmp_path / "idx", cluster, model, Faulty)
    assert message in caplog.text
    assert rows_of(built_index) == rows_of(one)


def test_an_error_of_a_worker_is_the_drivers(cluster: str, tmp_path: Path, model: Model) -> None:
    Path(f"{tmp_path / 'idx'}.error").write_text("ModelError", "utf-8")
    with pytest.raises(ModelError, match=r"^the disk hums$"):
        built(tmp_path / "idx", cluster, model, Faulty)


def test_a_cluster_without_cpus(cluster: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ray.cluster_resources", lambda: {"memory": 1.0})
    with pytest.raises(ClusterError, match="no CPU to compute with"):
        cpus()


def test_a_shard_that_kills_every_worker_is_given_up(
    cluster: str, tmp_path: Path, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("phrasemate.index.ray.TRIES", 2)
    with pytest.raises(ClusterError, match=r"shard 0 \(0-0.txt\) failed 2 times"):
        built(tmp_path / "idx", cluster, model, Deadly)


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An S3-compatible server on loopback, with one bucket."""
    server = pytest.importorskip("moto.server", reason="moto is not installed (pip install 'moto[server]')")
    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    url = f"http://{host}:{port}"
    names = {"ENDPOINT_URL": url, "ACCESS_KEY_ID": "test", "SECRET_ACCESS_KEY": "test", "REGION": "us-east-1"}
    for name, value in names.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    urllib.request.urlopen(urllib.request.Request(f"{url}/bucket", method="PUT")).read()
    yield "s3://bucket"
    running.stop()


def test_object_storage(cluster: str, bucket: str, one: Index, model: Model) -> None:
    built_index = built(f"{bucket}/deep/idx", cluster, model)
    assert rows_of(built_index) == rows_of(one)
    again = Index.open(Path(f"{bucket}/deep/idx"), model, settings=SETTINGS)  # as the commands give it
    query = "The [[old bank]] on the river was closed."
    (result,), (expected,) = (Searcher(index, model).search_all([query], k=3) for index in (again, one))
    assert [group.text for group in result.groups] == [group.text for group in expected.groups]
    assert again.verify().problems == []


def test_the_index_is_built_on_the_cluster(cluster: str, tmp_path: Path, one: Index, model: Model) -> None:
    pytest.importorskip("lance_ray", reason="lance-ray is not installed (pip install 'phrasemate[ray]')")
    built_index = built(tmp_path / "idx", cluster, model)
    built_index.optimize(cluster, workers=2)
    assert (built_index.stats().engine, built_index.stats().exact) == ("Lance IVF_RQ", 0)
    assert rows_of(built_index) == rows_of(one)
    assert built_index.verify().checked["recall@1"] >= 0.9


def test_a_worker_is_killed_while_the_index_is_built(
    cluster: str, tmp_path: Path, one: Index, model: Model, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    lance_ray_index = pytest.importorskip(
        "lance_ray.index", reason="lance-ray is not installed (pip install 'phrasemate[ray]')"
    )
    note, handler = tmp_path / "kill", lance_ray_index._handle_vector_fragment_index
    monkeypatch.setattr(
        lance_ray_index, handler.__name__, lambda *arguments, **named: Once(handler(*arguments, **named), note)
    )
    monkeypatch.setattr("phrasemate.index.lance.index.WAIT_SECONDS", 0.1)
    built_index = built(tmp_path / "idx", cluster, model)
    note.touch()
    built_index.optimize(cluster, workers=2)
    assert not note.exists(), "the worker was not killed"
    assert "trying again" in caplog.text
    assert built_index.stats().engine == "Lance IVF_RQ"
    assert rows_of(built_index) == rows_of(one)
    assert built_index.verify().checked["recall@1"] >= 0.9
    assert built_index.verify().problems == []


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("127.0.0.1:1", "no Ray cluster answers there .*; start one with: ray start --head --port 1"),
        ("nonsense", "is not an address of a Ray cluster; expected HOST:PORT, auto or local"),
    ],
)
def test_addresses(monkeypatch: pytest.MonkeyPatch, address: str, message: str) -> None:
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    with pytest.raises(ClusterError, match=message), connected(address):
        pass


class Package:
    """Ray as a package that connects to nothing: what it is asked for."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error, self.calls = error, list[dict[str, Any]]()

    def is_initialized(self) -> bool:
        return False

    def init(self, **options: Any) -> None:
        self.calls.append(options)
        if self.error:
            raise self.error

    def shutdown(self) -> None:
        self.calls.append({})


def test_a_local_cluster_is_started_and_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    package = Package()
    monkeypatch.setattr("phrasemate.index.ray.ray", lambda: package)
    monkeypatch.setenv("RAY_worker_niceness", "7")  # what the user says stays
    with connected("local", 3):
        (call,) = package.calls
        assert (call["address"], call["num_cpus"], call["include_dashboard"]) == ("local", 3, False)
    assert package.calls == [call, {}]
    assert dict(os.environ)["RAY_worker_niceness"] == "7"


def test_a_cluster_that_does_not_start_is_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    package = Package(ConnectionError("nobody is at home\nand more"))
    monkeypatch.setattr("phrasemate.index.ray.ray", lambda: package)
    message = r"^auto: no Ray cluster \(nobody is at home\); start one with: ray start --head$"
    with pytest.raises(ClusterError, match=message), connected("auto"):
        pass
    assert [call["address"] for call in package.calls] == ["auto"]  # nothing to end


def test_a_vector_index_that_cannot_be_built_is_given_up(
    cluster: str, tmp_path: Path, one: Index, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    def create_index(*arguments: object, **options: object) -> None:
        attempts.append(arguments)
        raise OSError("all workers are lost\nat line 7")

    attempts: list[object] = []
    monkeypatch.setitem(sys.modules, "lance_ray", SimpleNamespace(create_index=create_index))
    monkeypatch.setattr("phrasemate.index.lance.index.WAIT_SECONDS", 0.0)
    built_index = built(tmp_path / "idx", cluster, model)
    message = "could not be built in 3 attempts, at last: all workers are lost; the index works without it; run: "
    with pytest.raises(ClusterError, match=message):
        built_index.optimize(cluster, workers=2)
    assert len(attempts) == 3
    assert rows_of(Index.open(tmp_path / "idx", model, settings=SETTINGS)) == rows_of(one)


def test_from_text_to_answers(cluster: str, tmp_path: Path, folder: Path, invoke: Callable[..., Any]) -> None:
    text, place = tmp_path / "a.txt", tmp_path / "idx"
    text.write_text("The old bank on the river was closed.\nShe sat on the bank and read a book.\n", "utf-8")
    built_index = invoke(
        "index", text, "-o", place, "--model", folder, "--lang", "en", "--cluster", cluster, "--workers", 1
    )
    assert (built_index.exit_code, "2 sentences" in built_index.stdout) == (0, True), built_index.output
    result = invoke("search", place, "He opened [[the old bank]].", "--json", "-k", 2)
    assert {hit["document"] for group in json.loads(result.stdout)["results"][0]["groups"] for hit in group["hits"]}
    stats = json.loads(invoke("index", "stats", place, "--json").stdout)
    assert (stats["sentences"], stats["documents"], stats["engine"]) == (2, 1, "exact")
    assert invoke("index", "verify", place).exit_code == 0
    refused = invoke("index", text, "-o", place, "--lang", "en")
    assert (refused.exit_code, "give --cluster ADDRESS" in refused.stderr) == (1, True)
    name = stats_name(invoke, place)
    assert invoke("index", "delete", place, name).exit_code == 0
    assert json.loads(invoke("index", "stats", place, "--json").stdout)["sentences"] == 0


def stats_name(invoke: Callable[..., Any], place: Path) -> str:
    listed = json.loads(invoke("index", "stats", place, "--json", "--documents").stdout)
    return str(listed["documents_listed"][0]["name"])
