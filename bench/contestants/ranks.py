# SPDX-License-Identifier: Apache-2.0
"""The processes of a contestant whose replicas are ranks: rank 0 starts the
others, and passes its orders on to them."""

import os
import subprocess
import sys
import tempfile


class Others:
    """Ranks 1 to replicas - 1, seen from rank 0; none, seen from others.

    Fills in `args.meet`, where all meet.
    """

    def __init__(self, args):
        self._pipes = []
        if args.rank != 0 or args.replicas < 2:
            return
        args.meet = "file://" + os.path.join(tempfile.mkdtemp(), "meet")
        words = [sys.executable, *sys.argv, "--meet", args.meet, "--rank"]
        self._pipes = [
            subprocess.Popen([*words, str(rank)], stdin=subprocess.PIPE,
                             text=True, stdout=subprocess.DEVNULL).stdin
            for rank in range(1, args.replicas)]

    def tell(self, line):
        for pipe in self._pipes:
            pipe.write(line)
            pipe.flush()

    def close(self):
        for pipe in self._pipes:
            pipe.close()
