# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2154  # page.sh sources this, and has the variables.
#
# For blocks that build and test all of the tree: goes to a copy of it, where what
# takes minutes is left out. A preset or a target that does not exist fails, so do
# a file that is gone. Nothing is built: programs are those of the build at hand,
# whose targets are looked up, and each run of tests runs one of its tests.

mkdir -p tree/build
tar -C "$source" --exclude=./build --exclude=./.git -cf - . | tar -C tree -xf -
for name in peers tensorflow plugins; do
  [ ! -e "$source/build/$name" ] || ln -s "$source/build/$name" tree/build/
done
cd tree

cmake=$(command -v cmake) ctest=$(command -v ctest)
executable "$work/bin/has_preset" <<END
#!/bin/sh
# usage: has_preset KIND NAME
"$cmake" "--list-presets=\$1" | grep -q "^ *\"\$2\"" ||
  { echo "there is no \$1 preset \$2"; exit 1; }
END
# cmake --preset NAME, cmake --build --preset NAME [--target TARGET...]
executable "$work/bin/cmake" <<END
#!/bin/sh
set -e
if [ "\$1" != --build ]; then
  [ "\$1" = --preset ] || exit 2
  exec has_preset configure "\$2"
fi
has_preset build "\$3"
preset=\$3
shift 3
for target; do
  [ "\$target" = --target ] || ninja -C "$build" -t query "\$target" >/dev/null
done
mkdir -p "build/\$preset/\$preset"
ln -sf "$work/bin/lockstep" "build/\$preset/lockstep"
ln -sf /bin/true "build/\$preset/\$preset/one_\$preset"
END
# ctest --preset NAME [FLAG...]
executable "$work/bin/ctest" <<END
#!/bin/sh
set -e
[ "\$1" = --preset ] || exit 2
has_preset test "\$2"
cp "$build/CTestTestfile.cmake" "build/\$2/"
folder=build/\$2
shift 2
exec "$ctest" --test-dir "\$folder" -R '^base/alone\$' "\$@"
END
executable bench/compare <<END
#!/bin/sh
exec "$source/bench/compare" --help "\$@"
END
for name in gcovr clang-format; do
  executable "$work/bin/$name" <<'END'
#!/bin/sh
echo "$(basename "$0") of $# arguments"
END
done
