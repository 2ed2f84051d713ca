"""A cluster that speaks TLS: whoever has no certificate of its authority reaches neither scheduler nor workers."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from seedscope import Ensemble
from tests.helpers.cluster import Cluster
from tests.helpers.command_line import run_alone
from tests.helpers.stores import bits

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.optimised,
    pytest.mark.skipif(shutil.which("openssl") is None, reason="certificates are made with openssl"),
]
TRAIN = ("train", "breast-cancer", "--mechanism", "objective", "--seeds", "8", "--neighbours", "1")


def certificate(folder: Path, name: str, authority: str | None = None) -> None:
    """Make a key and a certificate, signed by itself or by an authority."""
    key = ["-newkey", "rsa:2048", "-nodes", "-keyout", f"{name}.key", "-subj", f"/CN={name}"]
    signed = [] if authority is None else ["-CA", f"{authority}.pem", "-CAkey", f"{authority}.key"]
    command = ["openssl", "req", "-x509", *key, *signed, "-out", f"{name}.pem", "-days", "2"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two authorities with a certificate each."""
    folder = tmp_path_factory.mktemp("certificates")
    for authority, name in (("ours", "lab"), ("theirs", "stranger")):
        certificate(folder, authority)
        certificate(folder, name, authority)
    return folder


@pytest.fixture(scope="module")
def cluster(certificates: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    options = [f"--tls-{what}={certificates / name}" for what, name in
               (("ca-file", "ours.pem"), ("cert", "lab.pem"), ("key", "lab.key"))]  # fmt: skip
    started = Cluster(tmp_path_factory.mktemp("tls"), ("--protocol", "tls", *options))
    started.add_worker(), started.add_worker()
    yield started
    started.stop()


def known_to(folder: Path, authority: str, name: str) -> dict[str, str]:
    """Return Dask's configuration of somebody with a certificate."""
    start = "DASK_DISTRIBUTED__COMM__"
    return {
        f"{start}REQUIRE_ENCRYPTION": "True",
        f"{start}TLS__CA_FILE": str(folder / f"{authority}.pem"),
        f"{start}TLS__CLIENT__CERT": str(folder / f"{name}.pem"),
        f"{start}TLS__CLIENT__KEY": str(folder / f"{name}.key"),
    }


def test_the_command_trains_on_an_encrypted_cluster_to_the_bits_of_one_process(
    cluster: Cluster, certificates: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cluster.address.startswith("tls://")
    for name, value in known_to(certificates, "ours", "lab").items():
        monkeypatch.setenv(name, value)
    done = run_alone(*TRAIN, "--cluster", cluster.address, "--store", str(tmp_path / "tls"))
    assert done.returncode == 0, done.stderr
    assert run_alone(*TRAIN, "--jobs", "1", "--store", str(tmp_path / "here")).returncode == 0
    assert bits(Ensemble.open(tmp_path / "tls")) == bits(Ensemble.open(tmp_path / "here"))


@pytest.mark.parametrize("who", ["nobody", "a stranger", "somebody without encryption"])
def test_who_has_no_certificate_of_the_authority_gets_one_sentence(
    cluster: Cluster, certificates: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, who: str
) -> None:
    if who == "a stranger":
        for name, value in known_to(certificates, "theirs", "stranger").items():
            monkeypatch.setenv(name, value)
    address = cluster.address.replace("tls://", "tcp://") if who == "somebody without encryption" else cluster.address
    done = run_alone(*TRAIN, "--cluster", address, "--store", str(tmp_path / "store"))
    assert done.returncode == 6, done.stderr
    assert "cannot reach a Dask scheduler" in done.stderr
    assert "Traceback" not in done.stderr
