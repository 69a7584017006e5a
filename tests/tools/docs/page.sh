#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Compiles and runs the code blocks of a page, in a folder of their own, and
# compares what they print with what the page shows (docs/blocks.awk has the
# marks). Says at the end how many ran, and why others were skipped; with
# LS_ALL_BLOCKS, which `./dev test` sets where it has fetched all, that is a
# failure, except without a network.
#
# usage: page.sh PAGE

set -eu
page=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
source=${LS_SOURCE_DIR:?} build=${LS_BUILD_DIR:?}
here=$source/tests/tools/docs
blocks=$work/blocks
mkdir "$blocks" "$work/bin" "$work/page"
cd "$source"
awk -v out="$blocks" -f "$here/blocks.awk" "$page" >"$work/faults"
[ ! -s "$work/faults" ] || { cat "$work/faults"; exit 1; }
touch "$blocks/blocks" "$blocks/page.run" "$blocks/named"

# ---- Programs that the page finds ---------------------------------------------
# executable FILE: of the lines that follow.
executable() {
  cat >"$1"
  chmod +x "$1"
}
# A page's set-up gives flags to a command in a variable: with_train=--steps=20.
executable "$work/bin/lockstep" <<END
#!/bin/sh
eval "more=\\\${with_\${1:-}:-}"
case " \$* " in *' --resume '*|*' --help '*) more= ;; esac
# shellcheck disable=SC2086  # Words are wanted.
exec "${LOCKSTEP:?}" "\$@" \$more
END
executable "$work/bin/cc" <<END
#!/bin/sh
exec ${CC:-cc} "\$@"
END
executable "$work/bin/pkg-config" <<END
#!/bin/sh
echo "-I$source/include -I$build/include -L$build -llockstep -llockstep-io -Wl,-rpath,$build"
END
PATH=$work/bin:$PATH
# A block runs in the first of these that has its modules.
pythons=$(ls "$source"/build/peers/bin/python "$source"/build/tensorflow/bin/python \
  2>/dev/null || true; command -v "${PYTHON:-python3}" || true)
python=$(echo "$pythons" | head -n 1)
export LOCKSTEP_LIBRARY="$build/liblockstep.so" PYTHONPATH="$source/python" \
  PYTHONPYCACHEPREFIX="$build/pycache"
[ ! -e "$source/build/peers/fetched" ] || export KERAS_BACKEND=jax

# ---- What pages ask for in their conditions -------------------------------------
# shellcheck disable=SC2034
[ "$page" != docs/languages.md ] || pip=$("$python" -m pip --version 2>/dev/null || true)
# What `./dev test` has fetched.
fetched=$(cat "$source"/build/*/fetched 2>/dev/null || true)
# set_plugin VARIABLE FILE: names a plug-in of build/plugins that can be loaded.
set_plugin() {
  eval "[ -z \"\${$1:-}\" ]" || return 0
  ! LS_PJRT_PLUGIN="$source/build/plugins/$2" "$work/bin/lockstep" devices --device pjrt \
    $3 >"$work/says" 2>&1 || export "$1=$source/build/plugins/$2"
}
if [ "$page" = docs/devices.md ]; then
  set_plugin LS_PJRT_PLUGIN lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so ""
  set_plugin LS_PJRT_TPU libtpu/libtpu.so "--topology v5e:1x1"
  [ -z "$fetched" ] || network=$("$python" -m pip --retries 1 --timeout 10 \
    index versions pip 2>/dev/null || true)
fi

# ---- C, and Python --------------------------------------------------------------
flags="-Wall -Wextra -Werror -Wno-unused-variable -Wno-unused-function \
  -Wno-unused-parameter -Wno-unused-but-set-variable -I$here -I$source/include -I$build/include"
link="-L$build -llockstep -llockstep-io -Wl,-rpath,$build -lm"
case $page in
  HACKING.md) # It shows the inside.
    flags="$flags -I$source/src"
    link="$build/liblockstep.a -lz -lm -ldl -pthread" ;;
esac
cd "$work/page"
# compile COMPILER FILE: into the program FILE without its ending.
compile() {
  # shellcheck disable=SC2086
  $1 $flags -o "${2%.*}" "$2" $link
}
programs=
for file in "$blocks"/*.c; do
  [ "$(basename "$file")" = page.c ] && ! grep -q fragment_ "$file" &&
    ! grep -q '^#line' "$file" && continue
  compile "${CC:-cc} -std=c11" "$file"
  programs="$programs ${file%.c}"
done
if grep -q fragment_ "$blocks/page.cpp"; then
  mv "$blocks/page.cpp" "$blocks/page_cpp.cpp"
  compile "${CXX:-c++} -std=c++17" "$blocks/page_cpp.cpp"
  programs="$programs $blocks/page_cpp"
fi
for file in "$blocks"/*.py; do
  if [ ! -e "$file" ] || [ -z "$python" ]; then continue; fi
  "$python" -c 'import sys; compile(open(sys.argv[1]).read(), sys.argv[1], "exec")' "$file"
done

# ---- The page's script -----------------------------------------------------------
# there KIND LINE NEEDED: whether the block at this line can run here; then what
# it prints goes to $output.
there() {
  at=$page:$2 output=$work/output.$2
  : >"$output"
  printf '%s\n' "$at" "$output" >"$work/at"
  missing=
  if [ "$1" = python ]; then
    for python in $pythons ""; do
      # shellcheck disable=SC2086
      [ -z "$python" ] || ! "$python" -c 'import sys, importlib.util as util
sys.exit(not all(map(util.find_spec, sys.argv[1:])))' ${3:-_ctypes} || break
    done
    [ -n "$python" ] || missing=" $3"
  else
    for name in $3; do
      case $name in
        \$*) eval "[ -n \"\${${name#?}:-}\" ]" || missing="$missing $name" ;;
        *) command -v "$name" >/dev/null || missing="$missing $name" ;;
      esac
    done
  fi
  [ -n "$missing" ] || return 0
  echo "$at: skipped, as there is no$missing" >>"$work/not_here"
  return 1
}

# take FILE PAGE: writes a file that another page shows.
take() {
  awk -v name="$1" '
/^```/ { inside = $0 == "```c " name; next }
inside' "$source/$2" >"$1"
}

# mpirun_flags: more ranks than cores, as root, which Open MPI wants to be told.
mpirun_flags() {
  ! command mpirun --version | grep -q 'Open MPI\|OpenRTE' ||
    echo "--allow-run-as-root --oversubscribe"
}

# refuse WHAT: ends the script.
refuse() {
  echo "FAIL $at $1"
  exit 1
}

# expect LINE SHOWN [1]: what the block at a line printed stands at another; 1:
# with other numbers.
expect() {
  [ ! -e "$work/output.$1" ] || grep -q "^$page:$1:" "$work/not_here" ||
    awk -v like="${3:-}" -f "$here/expect.awk" "$blocks/$2.expected" "$work/output.$1" ||
    refuse "prints otherwise than $page:$2 shows"
}

# run_script: in a shell of its own, whose servers end with it.
run_script() (
  set -e
  trap 'jobs -p >"$work/jobs"; xargs -r kill <"$work/jobs" 2>/dev/null || true' EXIT
  # shellcheck source=/dev/null
  . "$blocks/page.run"
)

# failed AT OUTPUT: ends the test with what was printed.
failed() {
  echo "FAIL $1"
  [ ! -e "$2" ] || cat "$2"
  exit 1
}

: >"$work/not_here"
set +e
run_script >"$work/says" 2>&1
code=$?
set -e
if [ $code != 0 ]; then
  cat "$work/says"
  failed "$(head -n 1 "$work/at")" "$(tail -n 1 "$work/at")"
fi
for program in $programs; do
  "$program" >"$work/says" 2>&1 || failed "$page, $(basename "$program")" "$work/says"
done

cat "$work/not_here"
if [ -n "${LS_ALL_BLOCKS:-}" ] && grep -v ' \$network$' "$work/not_here"; then
  echo "FAIL $page: skipped, although all was fetched"
  exit 1
fi
awk -F '\t' '
{ count[$3]++ }
END {
  printf "%s: %d blocks run, %d outputs compared, %d shown, %d skipped\n",
    page, count["run"] - absent, count["compared"], count["shown"], absent
}' page="$page" absent="$(wc -l <"$work/not_here")" "$blocks/blocks"
