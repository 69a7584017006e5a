# SPDX-License-Identifier: Apache-2.0
"""Builds the wheel of lockstep.py for pip (PEP 517). It is in the tree, so that
`pip install ./python` needs no other package and no network."""

import base64
import hashlib
import io
import os
import re
import tarfile
import zipfile

_HERE = os.path.dirname(os.path.abspath(__file__))
_TIME = (1980, 1, 1, 0, 0, 0)  # The same bytes each time.


def _read(name):
  with open(os.path.join(_HERE, name), encoding="utf-8") as file:
    return file.read()


def _project():
  """Returns name, version and so on: the texts of pyproject.toml."""
  table = _read("pyproject.toml").split("\n[project]\n")[1].split("\n[")[0]
  return dict(re.findall(r'^([a-z-]+) = "(.*)"$', table, re.M))


def _metadata(project):
  fields = [("Metadata-Version", "2.1"), ("Name", project["name"]),
            ("Version", project["version"]),
            ("Summary", project["description"]), ("License", "Apache-2.0"),
            ("Requires-Python", project["requires-python"])]
  return "".join("%s: %s\n" % field for field in fields)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
  del config_settings, metadata_directory  # There is nothing to set.
  project = _project()
  name = "%s-%s" % (project["name"], project["version"])
  info = name + ".dist-info"
  files = {
      "lockstep.py": _read("lockstep.py"),
      info + "/METADATA": _metadata(project),
      info + "/WHEEL": "Wheel-Version: 1.0\nGenerator: lockstep\n"
                       "Root-Is-Purelib: true\nTag: py3-none-any\n"}
  record = []
  for path, text in files.items():
    digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest())
    record.append("%s,sha256=%s,%d\n" % (path, digest.decode().rstrip("="),
                                         len(text.encode())))
  files[info + "/RECORD"] = "".join(record) + info + "/RECORD,,\n"
  wheel = name + "-py3-none-any.whl"
  with zipfile.ZipFile(os.path.join(wheel_directory, wheel), "w",
                       zipfile.ZIP_DEFLATED) as archive:
    for path, text in files.items():
      entry = zipfile.ZipInfo(path, _TIME)
      entry.external_attr = 0o644 << 16
      archive.writestr(entry, text, zipfile.ZIP_DEFLATED)
  return wheel


def build_sdist(sdist_directory, config_settings=None):
  del config_settings
  project = _project()
  name = "%s-%s" % (project["name"], project["version"])
  with tarfile.open(os.path.join(sdist_directory, name + ".tar.gz"), "w:gz",
                    format=tarfile.PAX_FORMAT) as archive:
    for path, text in (("PKG-INFO", _metadata(project)),
                       ("lockstep.py", _read("lockstep.py")),
                       ("backend.py", _read("backend.py")),
                       ("pyproject.toml", _read("pyproject.toml"))):
      entry = tarfile.TarInfo("%s/%s" % (name, path))
      entry.size = len(text.encode())
      archive.addfile(entry, io.BytesIO(text.encode()))
  return name + ".tar.gz"
