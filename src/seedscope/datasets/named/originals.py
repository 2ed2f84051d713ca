"""The originals of the public data sets: where each is, how it is checked, and how it becomes our compact file.

An original is an archive with members. What is checked is the uncompressed member, by its SHA-256 or, where several
faithful copies exist, by its shape and the counts of its classes. Members are read in memory and never extracted, so an
archive cannot write anywhere; nothing is ever unpickled.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import struct
import tarfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO

import numpy as np

from seedscope.core import SeedscopeError, require

_UCI = "https://archive.ics.uci.edu/static/public/"
_MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist/"
_LARGEST_MEMBER = 256 * 2**20
ADULT_COLUMNS = (
    "age,workclass,fnlwgt,education,education-num,marital-status,occupation,relationship,race,sex,capital-gain,"
    "capital-loss,hours-per-week,native-country,income"
)
_FOREST_MEASURES = (
    "Elevation,Aspect,Slope,Horizontal_Distance_To_Hydrology,Vertical_Distance_To_Hydrology,"
    "Horizontal_Distance_To_Roadways,Hillshade_9am,Hillshade_Noon,Hillshade_3pm,Horizontal_Distance_To_Fire_Points"
)
FOREST_COLUMNS = ",".join(
    (
        _FOREST_MEASURES,
        *(f"Wilderness_Area{area}" for area in range(1, 5)),
        *(f"Soil_Type{soil}" for soil in range(1, 41)),
    )
)


@dataclass(frozen=True)
class Member:
    """A file inside an original: its name and its checksum, or the shape and class counts that identify it."""

    name: str
    sha256: str = ""
    shape: tuple[int, int] = (0, 0)
    classes: Mapping[str, int] = field(default_factory=dict)

    @property
    def identity(self) -> str:
        """What a right copy is recognised by, in words."""
        rows, cells = self.shape
        return f"{self.name} (SHA-256 {self.sha256})" if self.sha256 else f"{self.name} ({rows} rows of {cells} cells)"

    def check(self, content: bytes) -> None:
        """Raise unless the content is this member's."""
        if self.sha256:
            digest = hashlib.sha256(content).hexdigest()
            require(digest == self.sha256, f"{self.name} has SHA-256 {digest}, but {self.sha256} is right.")
            return
        table = [line.replace(",", " ").split() for line in content.decode("ascii", "replace").splitlines() if line]
        shape = (len(table), max(map(len, table), default=0))
        counts = Counter(row[-1] for row in table if row)
        right = shape == self.shape and dict(counts) == dict(self.classes)
        require(right, f"{self.name} has {shape[0]} rows of {shape[1]} cells with classes {dict(counts)}.")


@dataclass(frozen=True)
class Original:
    """A file to download: its address and the members that are needed from it."""

    url: str
    members: tuple[Member, ...]

    @property
    def file(self) -> str:
        """The downloaded file's name."""
        return self.url.rsplit("/", 1)[-1]

    def read(self, path: Path) -> dict[str, bytes]:
        """Return the checked content of each member of the downloaded file."""
        wanted = {member.name for member in self.members}
        try:
            contents = dict(_contents(path, self.file, wanted))
        except (OSError, EOFError, zlib.error, zipfile.BadZipFile, tarfile.TarError, RuntimeError, NotImplementedError):
            raise SeedscopeError(f"{self.file} is cut off or damaged.") from None
        for member in self.members:
            require(member.name in contents, f"{self.file} has no member {member.name}.")
            member.check(contents[member.name])
        return contents


@dataclass(frozen=True)
class Recipe:
    """How compact files are made: the originals, and a function from members' contents to files' contents."""

    originals: tuple[Original, ...]
    files: tuple[str, ...]
    convert: Callable[[Mapping[str, bytes]], dict[str, bytes]]


def _contents(path: Path, file: str, wanted: set[str]) -> Iterator[tuple[str, bytes]]:
    """Yield the wanted members' names and contents, wherever in the archive they are."""
    if file.endswith(".tar.gz"):
        return _from_tar(path, wanted)
    return _from_zip(path, wanted) if file.endswith(".zip") else _from_gzip(path, file)


def _from_tar(path: Path, wanted: set[str]) -> Iterator[tuple[str, bytes]]:
    """Yield the wanted regular files of a gzipped tar archive."""
    with tarfile.open(path, "r:gz") as archive:
        for entry in archive:
            name = PurePosixPath(entry.name).name
            stream = archive.extractfile(entry) if name in wanted and entry.isfile() else None
            if stream is not None:
                yield name, _limited(stream)


def _from_zip(path: Path, wanted: set[str]) -> Iterator[tuple[str, bytes]]:
    """Yield the wanted members of a zip archive; a member that is gzipped once more is unpacked too."""
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            name = PurePosixPath(info.filename).name
            if name.removesuffix(".gz") in wanted:
                with archive.open(info) as outer, gzip.GzipFile(fileobj=outer) as inner:
                    yield name.removesuffix(".gz"), _limited(inner if name.endswith(".gz") else outer)


def _from_gzip(path: Path, file: str) -> Iterator[tuple[str, bytes]]:
    """Yield the one member of a gzip file."""
    with gzip.open(path) as stream:
        yield file.removesuffix(".gz"), _limited(stream)


def _limited(stream: IO[bytes] | gzip.GzipFile) -> bytes:
    """Return all of a stream, which must not unpack to more than any member has."""
    content = stream.read(_LARGEST_MEMBER + 1)
    if len(content) > _LARGEST_MEMBER:
        raise OSError("a member is larger than any original")
    return content


def _npz(**arrays: np.ndarray) -> bytes:
    """Return the arrays as the content of a compressed .npz file."""
    stream = io.BytesIO()
    np.savez_compressed(stream, allow_pickle=False, **arrays)
    return stream.getvalue()


def _idx(content: bytes) -> np.ndarray:
    """Return the array of an IDX file of bytes: two zeros, type 8, the number of axes, their lengths, the values."""
    zeros, kind, axes = struct.unpack(">HBB", content[:4])
    require(zeros == 0 and kind == 8, "an IDX file of bytes must begin with 00 00 08.")
    shape = struct.unpack(f">{axes}I", content[4 : 4 + 4 * axes])
    return np.frombuffer(content, np.uint8, offset=4 + 4 * axes).reshape(shape)


def _mnist(members: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return mnist.npz."""
    names = {"train": "train", "test": "t10k"}
    images = {f"x_{part}": _idx(members[f"{name}-images-idx3-ubyte"]) for part, name in names.items()}
    labels = {f"y_{part}": _idx(members[f"{name}-labels-idx1-ubyte"]) for part, name in names.items()}
    return {"mnist.npz": _npz(**images, **labels)}


def _cifar(members: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return cifar2.npz (airplanes and birds) and cifar10-small.npz (the first images of each class)."""
    train = b"".join(members[f"data_batch_{batch}.bin"] for batch in range(1, 6))
    x_train, y_train = _cifar_images(train)
    x_test, y_test = _cifar_images(members["test_batch.bin"])
    two, two_test = np.isin(y_train, (0, 2)), np.isin(y_test, (0, 2))
    few, few_test = _first_of_each(y_train, 1500), _first_of_each(y_test, 300)
    return {
        "cifar2.npz": _npz(
            x_train=x_train[two], y_train=y_train[two] // 2, x_test=x_test[two_test], y_test=y_test[two_test] // 2
        ),
        "cifar10-small.npz": _npz(
            x_train=x_train[few], y_train=y_train[few], x_test=x_test[few_test], y_test=y_test[few_test]
        ),
    }


def _cifar_images(content: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Return images [image, row, column, channel] and labels; a record is a label and three planes of colour."""
    records = np.frombuffer(content, np.uint8).reshape(-1, 1 + 3 * 32 * 32)
    return records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), records[:, 0]


def _first_of_each(labels: np.ndarray, count: int) -> np.ndarray:
    """Return the rows of the first `count` examples of each label, in their order."""
    return np.sort(np.concatenate([np.flatnonzero(labels == label)[:count] for label in np.unique(labels)]))


def _covertype(members: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return covtype.npz."""
    import pandas as pd

    table = pd.read_csv(io.BytesIO(members["covtype.data"]), header=None, dtype=np.int16).to_numpy()
    names = np.array(FOREST_COLUMNS.split(","))
    return {"covtype.npz": _npz(X=table[:, :-1], y=table[:, -1].astype(np.int8), feature_names=names)}


def _adult(members: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return adult.csv.gz: both parts with a header and a `split` column, spaces and the test labels' dot removed."""
    lines = [f"{ADULT_COLUMNS},split"]
    for part in ("data", "test"):
        for line in members[f"adult.{part}"].decode("ascii").splitlines():
            if line and not line.startswith("|"):
                split = "train" if part == "data" else "test"
                lines.append(f"{line.replace(' ', '').removesuffix('.')},{split}")
    return {"adult.csv.gz": gzip.compress(("\n".join(lines) + "\n").encode(), mtime=0)}


def _unchanged(member: str, file: str) -> Callable[[Mapping[str, bytes]], dict[str, bytes]]:
    """Return the conversion that keeps a member as it is."""
    return lambda members: {file: members[member]}


def _german(members: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return german-credit.csv: commas in place of the original's spaces."""
    lines = members["german.data"].decode("ascii").splitlines()
    return {"uci/german-credit.csv": "".join(",".join(line.split()) + "\n" for line in lines if line).encode()}


def _uci_table(archive: str, member: Member, file: str) -> Recipe:
    """Return the recipe of a small table that is one member of an archive."""
    return Recipe((Original(_UCI + archive, (member,)),), (file,), _unchanged(member.name, file))


RECIPES: dict[str, Recipe] = {
    "mnist": Recipe(
        tuple(
            Original(f"{_MNIST}{name}.gz", (Member(name, sha256),))
            for name, sha256 in {
                "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
                "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
                "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
                "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
            }.items()
        ),
        ("mnist.npz",),
        _mnist,
    ),
    "cifar10": Recipe(
        (
            Original(
                "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
                (
                    Member("data_batch_1.bin", "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5"),
                    Member("data_batch_2.bin", "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed"),
                    Member("data_batch_3.bin", "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67"),
                    Member("data_batch_4.bin", "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48"),
                    Member("data_batch_5.bin", "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add"),
                    Member("test_batch.bin", "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"),
                ),
            ),
        ),
        ("cifar2.npz", "cifar10-small.npz"),
        _cifar,
    ),
    "covertype": Recipe(
        (
            Original(
                f"{_UCI}31/covertype.zip",
                (Member("covtype.data", "0a9371cef7c964b5475d6053cc3e0894a5aa6f65ad1ed3ecb01c45aa96217945"),),
            ),
        ),
        ("covtype.npz",),
        _covertype,
    ),
    "adult": Recipe(
        (
            Original(
                f"{_UCI}2/adult.zip",
                (
                    Member("adult.data", "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d"),
                    Member("adult.test", "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05"),
                ),
            ),
        ),
        ("adult.csv.gz",),
        _adult,
    ),
    "contraception": _uci_table(
        "30/contraceptive+method+choice.zip",
        Member("cmc.data", "ad2a49da55df24b061a994ecc4d90c856aba35acd05138851aa251c4f06303c9"),
        "uci/contrac.csv",
    ),
    "credit": _uci_table(
        "27/credit+approval.zip",
        Member("crx.data", "fff49bc186cbddb3ace7371d40d9fbbb3af4f126019c13ff3f562249b1454f4d"),
        "uci/credit-approval.csv",
    ),
    "dermatology": _uci_table(
        "33/dermatology.zip",
        Member("dermatology.data", "455eba77f72cd087ce54a5a266c514c5f34e85000c8689ad09e796d68ad45742"),
        "uci/dermatology.csv",
    ),
    "mammography": _uci_table(
        "161/mammographic+mass.zip",
        Member("mammographic_masses.data", shape=(961, 6), classes={"0": 516, "1": 445}),
        "uci/mammo.csv",
    ),
    "heart": _uci_table(
        "45/heart+disease.zip",
        Member("processed.cleveland.data", shape=(303, 14), classes={"0": 164, "1": 55, "2": 36, "3": 35, "4": 13}),
        "uci/heart-cleveland.csv",
    ),
    "german-credit": Recipe(
        (
            Original(
                f"{_UCI}144/statlog+german+credit+data.zip",
                (Member("german.data", shape=(1000, 21), classes={"1": 700, "2": 300}),),
            ),
        ),
        ("uci/german-credit.csv",),
        _german,
    ),
}
