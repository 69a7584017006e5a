#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# ./dev says how far its build is, leaves the user's paths and options alone,
# says to a user who may not install packages what to type, and fetches what its
# tests need, once, or goes on without. Its tools are stand-ins.

set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/tree" "$work/bin" "$work/user"
cp "${LS_SOURCE_DIR:?}/dev" "$work/tree/dev"

fail() {
  echo "FAIL $*"
  cat "$work/out" "$work/err"
  exit 1
}

# stand_in NAME: a program; its text comes from standard input.
stand_in() {
  { echo "#!/bin/sh"; cat; } >"$work/bin/$1"
  chmod +x "$work/bin/$1"
}

stand_in dpkg-query <<'END'
[ -n "${MISSING:-}" ] || echo installed
END
stand_in id <<'END'
echo 1000
END
stand_in cmake <<'END'
case $1 in --build) ;; *) exit 0 ;; esac
[ -f dev ] || { echo "not in the tree: $PWD"; exit 1; }
for i in 1 2 3 4; do echo "[$i/4] Building $i"; done
[ -z "${BROKEN:-}" ] ||
  { printf 'FAILED: x.o\nerror: broken\n'; exit 1; }
mkdir -p build/release
printf '#!/bin/sh\necho "at $PWD: $*"\n' >build/release/lockstep
chmod +x build/release/lockstep
END

# runs [VARIABLE=VALUE...]: ./dev train --run-dir mine, by a relative path.
runs() {
  (cd "$work/user" && env "$@" PATH="$work/bin:$PATH" \
    ../tree/dev train --run-dir mine) >"$work/out" 2>"$work/err" </dev/null
}

# A run of the user's, in the user's folder.
runs || fail "train ends with code $?"
grep -q "^at $work/user: train .*--run-dir mine$" "$work/out" ||
  fail "the user's folder is left"
[ "$(grep -c "^dev: [1-4] of 4$" "$work/out")" = 4 ] ||
  fail "the build does not say how far it is"
[ ! -e "$work/user/build" ] || fail "something is built in the user's folder"

# On a terminal one line that changes.
if command -v script >/dev/null; then
  (cd "$work/user" && PATH="$work/bin:$PATH" \
    script -qec "../tree/dev train" /dev/null) >"$work/out" 2>"$work/err" \
    </dev/null || fail "train on a terminal ends with code $?"
  tr '\r' '\n' <"$work/out" | grep -q "^dev: 3 of 4 $" ||
    fail "the count does not go on in its line"
  [ "$(grep -c 'of 4' "$work/out")" = 1 ] || fail "the count takes many lines"
else
  echo "skipped: no terminal without script"
fi

# What fails is shown.
if runs BROKEN=1; then fail "a broken build passes"; fi
grep -q "error: broken" "$work/err" || fail "the error is not shown"
grep -q "Building" "$work/err" && fail "more than the failure is shown"
grep -q "all of it is in build/release.log" "$work/err" ||
  fail "the log is not named"

# A line that can be copied as it stands.
if runs MISSING=1; then fail "missing packages pass"; fi
grep -q "^  apt-get update && apt-get install .* gcc .*ninja" "$work/err" ||
  fail "the line for apt"

# What tests need, once; without a network they run all the same. Where all is
# there, or a network is, in CI, no code block may be skipped.
stand_in python <<'END'
case "$*" in
  *"index versions"*) [ -z "${OFFLINE:-}" ]; exit ;;
  *"-m venv"*)
    for folder; do :; done
    mkdir -p "$folder/bin"
    cp "$0" "$folder/bin/python" ;;
esac
[ -z "${OFFLINE:-}${NO_WHEEL:-}" ] || { echo "nothing to fetch"; exit 1; }
mkdir -p build/plugins
END
stand_in ctest <<'END'
echo "tests run${LS_ALL_BLOCKS:+, all blocks}"
END

# tests [VARIABLE=VALUE...]: ./dev test, in the tree.
tests() {
  (cd "$work/tree" && env CI= LS_PJRT_PLUGIN= LS_ALL_BLOCKS= PYTHON="$work/bin/python" "$@" \
    PATH="$work/bin:$PATH" ./dev test) >"$work/out" 2>"$work/err" </dev/null || true
  grep -q "^tests run" "$work/out" || fail "no test runs"
}

tests OFFLINE=1 CI=true
grep -q "^dev: not there: lammps.* libtpu" "$work/out" &&
  grep -q "^dev: tests and code blocks .* are skipped" "$work/out" ||
  fail "what cannot be had is not reported"
! grep -q "^tests run, all blocks" "$work/out" || fail "all blocks without a network"
! grep -q "there is a network" "$work/err" || fail "a network is found"
tests NO_WHEEL=1 CI=true
grep -q "there is a network" "$work/err" || fail "what is gone from PyPI passes in CI"
tests
grep -q "^dev: fetching .*lammps-jax-pjrt-cpu" "$work/out" || fail "no plug-in is fetched"
! grep -q "fetching .*\(libtpu\|tensorflow\)" "$work/out" || fail "all is fetched for all"
! grep -q "^tests run, all blocks" "$work/out" || fail "all blocks without all packages"
tests CI=true
grep -q "^dev: fetching .*libtpu" "$work/out" &&
  grep -q "^tests run, all blocks" "$work/out" || fail "not all is fetched in CI"
tests OFFLINE=1 CI=true
! grep -q "fetching" "$work/out" || fail "something is fetched twice"
grep -q "^tests run, all blocks" "$work/out" || fail "what is there is not used"
