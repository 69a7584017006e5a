#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Checkpoints are listed, shown, compared, verified and converted, and runs
# compared, as they are; whatever is not right ends with one line that names it.

# shellcheck source=tests/support/cli.sh
. "$(dirname "$0")/../support/cli.sh"
rm -rf epochs run other same cut resumed out.npz out.safetensors back.safetensors

# tells CODE WANTED ARGUMENT...: with this code and a line that fits.
tells() {
  wanted_code=$1
  wanted=$2
  shift 2
  "$lockstep" "$@" >out.txt 2>err.txt
  code=$?
  if [ "$code" = "$wanted_code" ] && [ ! -s err.txt ] &&
     grep -qE -- "$wanted" out.txt; then
    echo "ok   lockstep $*"
  else
    fail "lockstep $*: code $code, wanted $wanted_code and: $wanted"
  fi
}

# trains FOLDER FLAG...
trains() {
  folder=$1
  shift
  "$lockstep" train --model tiny --data synthetic --quiet --run-dir "$folder" \
    --steps 20 --save-every-steps 5 --keep 0 "$@" >out.txt 2>err.txt ||
    fail "train $*"
}
trains run --threads 2
trains same --threads 1
trains other --seed 3

# ---- List and show -----------------------------------------------------------
tells 0 '^ +step +age +size  arrays  state    metrics$' checkpoint list run
tells 0 '^ +15 .* 5  whole    loss=[0-9.]+ accuracy=' checkpoint list run
tells 0 '^\{"step":5,"whole":true,"saved":[0-9.]+,"bytes":[0-9]+,"arrays":5,"metrics":\{"loss":1' \
  checkpoint list run --json
# Metrics are those of the last epoch, however seldom the run saves.
"$lockstep" train --model tiny --data synthetic --quiet --run-dir epochs \
  --epochs 3 --batch-size 512 >out.txt 2>err.txt || fail "train epochs"
loss=$(grep -o '"loss":[0-9.]*' epochs/metrics.jsonl | tail -n 1 | cut -c 1-12)
tells 0 "\"metrics\":\{$loss" checkpoint list epochs --json
tells 0 '^run/model.ckpt-20.safetensors: checkpoint, 5 arrays, 1.34 KiB$' \
  checkpoint show run
tells 0 '^step 10, saved 20..-..-.. ..:..:.. UTC$' \
  checkpoint show run/model.ckpt-10
tells 0 '^run model: "tiny"$' checkpoint show run
tells 0 '^state functions: \{.*"train_step":20' checkpoint show run
tells 0 '^state run: .{106}\.\.\.$' checkpoint show run
tells 0 '^sgd/step +i64\[\] +8 B +20 +20 +20 +0$' checkpoint show run
tells 0 '^hidden1/kernel +f32\[16,16\] +1.00 KiB +-0\.[0-9]+ +0\.[0-9]+ ' \
  checkpoint show run --only 'hidden1/*'
grep -q logits out.txt && fail "--only shows others, too"
tells 0 '^hidden1/bias +f32\[16\] +64 B$' checkpoint show run --brief
tells 0 '"step":20,.*"identity":\{"model":"tiny".*"states":\{.*"arrays":\[\{"name":"sgd/step","dtype":"i64","shape":\[\],"bytes":8,"min":20,' \
  checkpoint show run --json
tells 0 'model.safetensors: safetensors, 4 arrays' \
  checkpoint show run/model.safetensors

# ---- Convert -----------------------------------------------------------------
tells 0 '^out.npz: 5 arrays$' checkpoint convert run out.npz
tells 0 '^back.safetensors: 5 arrays$' \
  checkpoint convert out.npz back.safetensors
"$lockstep" checkpoint diff back.safetensors run >out.txt 2>err.txt &&
  [ ! -s out.txt ] || fail "what was converted twice differs"
tells 0 '^out.safetensors: 4 arrays$' \
  checkpoint convert run out.safetensors --except 'sgd/*'
cmp -s out.safetensors run/model.safetensors ||
  "$lockstep" checkpoint diff out.safetensors run/model.safetensors \
    >out.txt 2>err.txt || fail "the model alone is another than the run's"
tells 0 '^out.safetensors: 2 arrays$' checkpoint convert run out.safetensors \
  --only 'logits/*' --map logits/=head/,logits/bias=b
tells 0 '^head/kernel ' checkpoint show out.safetensors --brief

# ---- Diff --------------------------------------------------------------------
tells 1 '^step: 15 and 20$' \
  checkpoint diff run/model.ckpt-15 run/model.ckpt-20
tells 1 '^logits/bias: 4 of 4 elements of f32\[4\]; first logits/bias\[0\] is -?[0-9.e-]+ \(0x[0-9a-f]{8}\) and .* apart, relative .*, [0-9]+ ulp$' \
  checkpoint diff run other
tells 1 '^run seed: 0 and 3$' checkpoint diff run other
tells 1 '^state input iterator seed: 0 and 3$' checkpoint diff run other
tells 0 '^state run nanos: [0-9]+ and [0-9]+$' checkpoint diff run same
tells 1 '^and 2 more$' checkpoint diff run other --most 2
tells 1 "^sgd/step: only in 'run/model.ckpt-20.safetensors', i64\[\]$" \
  checkpoint diff run run/model.safetensors
tells 1 '^\{"array":"logits/bias","type":"f32\[4\]","elements":4,"different":4,"first":\[0\],"values":\["-?[0-9.e-]+ \(0x[0-9a-f]{8}\)",".*"\],"absolute":[0-9.e-]+,"relative":[0-9.e-]+,"ulp":[0-9]+,"no_numbers":0\}$' \
  checkpoint diff run other --json
grep -qv '^{' out.txt && fail "--json prints other lines, too"
tells 1 '^\{"array":"sgd/step","only_in":"run/model.ckpt-20.safetensors","type":"i64\[\]"\}$' \
  checkpoint diff run run/model.safetensors --json
"$lockstep" checkpoint diff run same --only 'logits/*' >out.txt 2>err.txt &&
  [ ! -s out.txt ] && [ ! -s err.txt ] || fail "equal checkpoints differ"

tells 0 '^equal: [0-9]+ lines? of metrics, 4 files of values$' diff run same
tells 0 '^config.json threads: [0-9]+ and 1$' diff run same
tells 1 '^config.json seed: 0 and 3$' diff run other
tells 1 '^metrics.jsonl: first at step 20: loss is [0-9.]+ \(0x[0-9a-f]{16}\) and ' \
  diff run other
tells 1 '^checkpoint of step 5 differs:$' diff run other
tells 1 '^  hidden1/kernel: 256 of 256 elements of f32\[16,16\]; first hidden1/kernel\[0,0\] is ' \
  diff run other
tells 0 '^\{"in":"config.json","member":"threads","values":\[[0-9]+,1\]\}$' \
  diff run same --json
tells 0 '^\{"equal":true,"lines":[0-9]+,"files":4\}$' diff run same --json
for line in '\{"in":"config.json","member":"seed","values":\[0,3\]\}' \
            '\{"in":"metrics.jsonl","step":20,"member":"loss","values":\["[0-9.]+ \(0x[0-9a-f]{16}\)",".*"\]\}' \
            '\{"different":"checkpoint of step 5"\}' \
            '\{"array":"hidden1/kernel","type":"f32\[16,16\]","elements":256,.*\}' \
            '\{"equal":false,"lines":1,"files":1\}'; do
  tells 1 "^$line\$" diff run other --json
done
grep -qv '^{' out.txt && fail "diff --json prints other lines, too"
# A number too long for its bits is printed whole.
zeros=$(printf '%070d' 0)
for end in 5 6e1; do
  cp -r run long$end
  echo "{\"step\":21,\"loss\":0.1${zeros}$end}" >>long$end/metrics.jsonl
done
tells 1 "loss is 0.1${zeros}5 and 0.1${zeros}6e1\$" diff long5 long6e1
# A damaged line is passed over and reported.
cp -r run damaged
cp -r other damaged-other
for folder in damaged damaged-other; do
  sed -i '1i {"step":5,x' $folder/metrics.jsonl
done
tells 1 "^metrics.jsonl: 1 line of 'damaged' is damaged$" diff run damaged
tells 1 '"damaged":1,"only_in":"damaged"' diff run damaged --json
tells 1 '^metrics.jsonl: first at step' diff damaged damaged-other
# So is one after zeros, as of a crash of the machine.
cp run/metrics.jsonl damaged
printf '\0\0{"step":21}\n' >>damaged/metrics.jsonl
tells 1 "^metrics.jsonl: 1 line of 'damaged' is damaged$" diff run damaged
# Only numbers have bits, and what is no JSON is a text.
cp run/metrics.jsonl damaged
sed -i 's/"loss":[^,]*/"loss":null/' damaged/metrics.jsonl
tells 1 '^metrics.jsonl: .* loss is [0-9.]+ \(0x[0-9a-f]{16}\) and null$' \
  diff run damaged
tells 1 '"member":"loss","values":\["[0-9.]+ \(0x[0-9a-f]{16}\)","null"\]' \
  diff run damaged --json
cp run/metrics.jsonl damaged
sed -i 's/"seed":0/"seed":falseNaN/' damaged/config.json
tells 0 '^\{"in":"config.json","member":"seed","values":\[0,"falseNaN"\]\}$' \
  diff run damaged --json
rm -r damaged damaged-other long5 long6e1
# Parted at a step in between.
cp -r run resumed
cp other/model.ckpt-15.* resumed
tells 1 '^checkpoint of step 15 differs:$' diff run resumed
# Without a checkpoint of one step: by their models.
rm resumed/model.ckpt-* resumed/checkpoint
tells 0 '^equal: 2 lines of metrics, 1 file of values$' diff run resumed
cp -r run bare
rm resumed/metrics.jsonl
tells 1 "^metrics.jsonl: 'run' continues at step" diff run resumed
rm bare/metrics.jsonl resumed/model.safetensors
ends 1 "have no step in common to compare" diff bare resumed
rm -r bare

# Names of others are printed without what a terminal takes for commands.
printf '\110\0\0\0\0\0\0\0{"w\\u001b[31m\\n":{"dtype":"F64","shape":[3],"data_offsets":[0,24]}}     ' >one.safetensors
cp one.safetensors two.safetensors
printf '%16s\0\0\0\0\0\0\0\0' '' >>one.safetensors
printf '%24s' '' >>two.safetensors
tells 1 '^w\?\[31m\?: 1 of 3 elements of f64\[3\]; first w\?\[31m\?\[2\] is 0 ' \
  checkpoint diff one.safetensors two.safetensors
# Differences of numbers may be larger than any.
printf '\100\0\0\0\0\0\0\0{"w":{"dtype":"F64","shape":[3],"data_offsets":[0,24]}}         ' >one.safetensors
for number in '\240\310\353\205\363\314\341\177' '\240\310\353\205\363\314\341\377' \
              '\240\310\353\205\363\314\341\177'; do
  # shellcheck disable=SC2059
  printf "$number"
done >>one.safetensors
tells 0 '^w +f64\[3\] +24 B +-1e\+308 +1e\+308 +3.333e\+307 +9.428e\+307$' \
  checkpoint show one.safetensors

# Complex elements have two parts, and no order.
if command -v python3 >out.txt; then
  cat >complex.py <<'END'
import struct
import sys
import zipfile

for path, last in ("one.npz", -4), ("two.npz", 4), ("none.npz", float("nan")):
    head = "{'descr': '<c16', 'fortran_order': False, 'shape': (2,), }"
    head = head.ljust(117) + "\n"
    data = b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head.encode()
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("w.npy", data + struct.pack("<4d", 0, 0, 3, last))
END
  python3 complex.py || fail "no files of complex arrays"
  tells 0 '^w +c128\[2\] +32 B$' checkpoint show one.npz
  tells 0 '"bytes":32,"min":null,"max":null,"mean":null,"deviation":null,"zeros":1,"no_numbers":0\}' \
    checkpoint show one.npz --json
  tells 0 '"zeros":1,"no_numbers":1\}' checkpoint show none.npz --json
  tells 1 '^w: 1 of 2 elements of c128\[2\]; first w\[1\] is 3-4i \(0x4008000000000000 0xc010000000000000\) and 3\+4i \(0x4008000000000000 0x4010000000000000\); at most 8 apart, relative 2, [0-9]+ ulp$' \
    checkpoint diff one.npz two.npz
  tells 1 '; 1 are no numbers$' checkpoint diff one.npz none.npz
fi

# ---- Verify ------------------------------------------------------------------
tells 0 '^run/model.ckpt-5: 5 arrays, 1.34 KiB, whole$' checkpoint verify run
tells 0 '^out.npz: 5 arrays, 1.34 KiB, whole$' checkpoint verify out.npz
tells 0 '^out.safetensors: 2 arrays, 272 B, whole$' \
  checkpoint verify out.safetensors
# Those of others have none.
sed 's/ls[.]crc32c/no.crc32c/' out.safetensors >others.safetensors
tells 0 'as long as it should be; it has no checksums$' \
  checkpoint verify others.safetensors
tells 0 '^\{"path":"run/model.ckpt-5","arrays":5,"bytes":1368,"checksums":true,"damaged":0\}$' \
  checkpoint verify run --json

# verifies WANTED FOLDER: that it is damaged.
verifies() {
  if "$lockstep" checkpoint verify "$2" >out.txt 2>err.txt; then
    fail "checkpoint verify $2: it is not whole"
  elif ! grep -qF -- "$1" err.txt; then
    fail "checkpoint verify $2: wanted: $1"
  else
    echo "ok   lockstep checkpoint verify $2"
  fi
}
# flips FILE BYTE: a bit of it.
flips() {
  byte=$(od -An -tu1 -j "$2" -N 1 "$1" | tr -d ' ')
  # shellcheck disable=SC2059
  printf "\\$(printf %o $((byte ^ 1)))" |
    dd of="$1" bs=1 seek="$2" conv=notrunc 2>/dev/null
}
mkdir cut
for step in 5 10 15 20; do
  cp run/model.ckpt-$step.* cut
done
values=cut/model.ckpt-10.safetensors
flips $values $(($(wc -c <$values) - 1))
verifies "'cut/model.ckpt-10.safetensors' is damaged: the checksum of array 'logits/bias' does" cut
grep -q '^cut/model.ckpt-10: 5 arrays, 1.34 KiB, 1 damaged$' out.txt &&
  grep -q '^cut/model.ckpt-15: 5 arrays, 1.34 KiB, whole$' out.txt ||
  fail "verify does not go on"
flips cut/model.ckpt-15.json 40
verifies "'cut/model.ckpt-15.json' is damaged: its checksum" cut
head -c 200 run/model.ckpt-20.safetensors >cut/model.ckpt-20.safetensors
verifies "model.ckpt-20.safetensors' is" cut
"$lockstep" checkpoint verify cut --json >out.txt 2>err.txt
[ "$(grep -c '^{"path":"cut/model.ckpt-[0-9]*",.*}$' out.txt)" = 4 ] &&
  grep -q '^{"path":"cut/model.ckpt-15","why":".*its checksum does not match' \
    out.txt || fail "--json has no line for a file that cannot be opened"
tells 0 '^ +15 .* damaged  .*its checksum does not match$' checkpoint list cut
# The newest whole one is shown; which are not is said.
"$lockstep" checkpoint show cut/ --brief >out.txt 2>err.txt
grep -q '^step 10,' out.txt && grep -q "model.ckpt-20' and 1 other are skipped" err.txt ||
  fail "checkpoint show: the newest that is whole"
ends 1 "the checksum of array 'logits/bias' does not match" \
  checkpoint convert cut/model.ckpt-10 out.safetensors

# Values that are no checkpoint are used if none is intact, by all commands.
rm -rf lone
mkdir lone
cp run/config.json run/model.safetensors run/model.ckpt-20.* lone
flips lone/model.ckpt-20.safetensors \
  $(($(wc -c <lone/model.ckpt-20.safetensors) - 1))
for command in eval predict export; do
  "$lockstep" $command lone >out.txt 2>err.txt || fail "$command lone"
  [ "$(grep -c "'lone/model.safetensors' is used instead of a checkpoint: .*the checksum of array" err.txt)" = 1 ] ||
    fail "$command: model.safetensors is not said to be used"
  grep -q "no checkpoint in 'lone'" err.txt && fail "$command: a second line"
done

# ---- Garbage -----------------------------------------------------------------
# Whatever the bytes, each command ends by itself, and says one line if it fails.
garbage() {
  for command in "list cut" "show $1" "diff $1 run" "verify $1" \
                 "convert $1 out.safetensors"; do
    # shellcheck disable=SC2086
    "$lockstep" checkpoint $command >out.txt 2>err.txt
    code=$?
    [ $code -le 2 ] || fail "lockstep checkpoint $command: code $code"
  done
}
size=$(wc -c <run/model.ckpt-5.json)
for at in 0 1 30 $((size / 2)) $((size - 30)) $((size - 1)); do
  cp run/model.ckpt-5.json cut
  flips cut/model.ckpt-5.json "$at"
  garbage cut/model.ckpt-5
  head -c "$at" run/model.ckpt-5.json >cut/model.ckpt-5.json
  garbage cut/model.ckpt-5
done
cp run/model.ckpt-5.json cut
for from in run/model.ckpt-5.safetensors out.npz; do
  size=$(wc -c <$from)
  for at in 0 8 20 60 $((size / 2)) $((size - 40)) $((size - 5)); do
    cp $from cut/any
    flips cut/any "$at"
    garbage cut/any
    head -c "$at" $from >cut/any
    garbage cut/any
  done
done
for bytes in '' '{' 'PK' 'text' '{"step":1}'; do
  printf %s "$bytes" >cut/any
  ends 1 "cut/any" checkpoint show cut/any
  ends 1 "cut/any" checkpoint convert cut/any out.npz
done
cp -r run same/inner
printf '{"step":5,"loss":}\n[[[\n{"step"' >same/metrics.jsonl
"$lockstep" diff run same >out.txt 2>err.txt
[ $? -le 1 ] || fail "diff of garbage in metrics.jsonl"
printf '{{{' >same/config.json
"$lockstep" diff run same >out.txt 2>err.txt
[ $? -le 1 ] || fail "diff of garbage in config.json"

# ---- Bad words ---------------------------------------------------------------
ends 2 "COMMAND is missing: list, show, diff, verify or convert" checkpoint
ends 2 "there is no command 'shwo'; did you mean 'show'?" checkpoint shwo
ends 2 "there is no command 'frobnicate'; see 'lockstep checkpoint --help'" \
  checkpoint frobnicate
ends 2 "FOLDER is missing" checkpoint list
ends 2 "give two PATHs, got 1" checkpoint diff run
ends 2 "give PATH and TO, got 3 words" checkpoint convert a b c
ends 2 "'out.pt' must end in .safetensors or .npz" \
  checkpoint convert run out.pt
ends 2 "--map has 'a', expected OLD=NEW" \
  checkpoint convert run out.npz --map a
ends 2 "--only is 'a,,b', which has an empty name" \
  checkpoint show run --only a,,b
ends 2 "give two run folders, got 1" diff run
ends 1 "'nowhere'" checkpoint list nowhere
ends 1 "'nowhere'" checkpoint show nowhere
ends 1 "'nowhere'" checkpoint verify nowhere
ends 1 "'same/inner/nothing'" checkpoint diff run same/inner/nothing
ends 1 "there is no array 'none/*'" checkpoint show run --only 'none/*'
ends 1 "'none/*' fits no array of 5" \
  checkpoint convert run out.npz --only 'none/*'
ends 1 "would have two arrays called 'x'" checkpoint convert run out.npz \
  --map hidden1/bias=x,logits/bias=x
ends 1 "'nowhere' is no run folder: it has no config.json" diff run nowhere

exit $failed
