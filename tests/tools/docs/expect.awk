# SPDX-License-Identifier: Apache-2.0
#
# Fails unless the lines of the first file are in the second, in their order,
# one after another; a line "..." stands for any lines. With -v like=1 a number
# is like any other, and so is a gap of another width.

function line_of(text) {
  if (!like) return text
  gsub(/[0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f]+/, "0", text)
  gsub(/[0-9]+([.:][0-9]+)*(e[-+][0-9]+)?/, "0", text)
  gsub(/  +/, " ", text)
  return text
}

NR == FNR {
  wanted[++num_wanted] = line_of($0)
  next
}
{ got[++num_got] = line_of($0) }
END {
  at = 1
  any = 1
  for (i = 1; i <= num_wanted; ++i) {
    if (wanted[i] == "...") {
      any = 1
      continue
    }
    while (any && at <= num_got && got[at] != wanted[i]) ++at
    if (at > num_got || got[at] != wanted[i]) {
      print "wanted: " wanted[i]
      print "it printed:"
      for (k = 1; k <= num_got; ++k) print "  " got[k]
      exit 1
    }
    ++at
    any = 0
  }
}
