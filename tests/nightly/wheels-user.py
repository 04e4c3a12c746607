"""Uses an installed package: python wheels-user.py [--without-program]"""

import importlib.metadata
import subprocess
import sys
import tempfile
from pathlib import Path

import evener

key = evener.generate()
data = bytes(range(256)) * 20_000
assert evener.open_bytes(evener.seal_bytes(data, keys=key), keys=key) == data
with tempfile.TemporaryDirectory() as name:
    place = Path(name)
    (place / "photos").mkdir()
    (place / "photos" / "one").write_bytes(data)
    evener.encrypt(place / "photos", place / "backup", keys=key)
    evener.decrypt(place / "backup", place / "restored", keys=key)
    assert (place / "restored" / "one").read_bytes() == data
    with evener.open(place / "backup" / "one.enc", keys=key) as file:
        file.seek(-1000, 2)
        assert file.read() == data[-1000:]

names = {str(it.name) for it in importlib.metadata.files("evener") or ()}
if "--without-program" not in sys.argv:
    assert {"LICENSE", "LICENSES-of-dependencies", "evener"} <= names, names
    subprocess.run([sys.executable, "-m", "evener", "--version"], check=True)
