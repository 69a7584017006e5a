# SPDX-License-Identifier: Apache-2.0
#
# Takes the code blocks of a page of docs/ into files of the folder OUT:
#
#   PAGE-LINE.c    a program or a file of declarations
#   fragments.c    all fragments, a function each; added to
#   commands       lines of shell with a command of lockstep; added to
#   PAGE.run       blocks marked "sh run", one script; what follows such a block
#                  in a block without a language, it prints, in this order, with
#                  anything where a line is "..."
#
# A block marked "python run" runs so too, where there is a Python. Other blocks
# in Python are TensorFlow's and PyTorch's.
#
# A block marked "c NAME" is a file of the page's script. Names that a fragment
# takes from elsewhere are declared in a comment before it:
#
#   <!-- c: ls_iterator *batches; -->
#
# usage: awk -v out=OUT -v page=PAGE -f blocks.awk FILE

function end_block(    name) {
  if (kind == "c" && word != "") {
    print "cat >" word " <<'END_OF_FILE'\n" text "END_OF_FILE" > run
    has_run = 1
  }
  if (kind == "c" && (text ~ /(^|\n)#include/ || text ~ /(^|\n)static /)) {
    name = out "/" page "-" start ".c"
    if (text !~ /#include/) text = "#include \"lockstep/full.h\"\n" context "\n" text
    printf "%s", text > name
    close(name)
  } else if (kind == "c") {
    name = page
    gsub(/[^a-z]/, "_", name)
    printf "ls_status %s_%d(void);\nls_status %s_%d(void) {\n%s\n#line %d \"%s\"\n%s  return ls_ok();\n}\n",
      name, start, name, start, context, start + 1, FILENAME, text >> (out "/fragments.c")
  }
  if (kind == "sh") printf "%s", text >> (out "/commands")
  if (kind == "sh" && word == "run") {
    ++num_outputs
    printf "{\n%s} >output.%d 2>&1 || { cat output.%d; echo '%s:%d failed'; exit 1; }\n",
      text, num_outputs, num_outputs, FILENAME, start > run
    has_run = 1
    may_print = 1
  } else if (kind == "python" && word == "run") {
    ++num_outputs
    printf "[ -z \"$python\" ] || \"$python\" - >output.%d 2>&1 <<'END_OF_FILE' || { cat output.%d; echo '%s:%d failed'; exit 1; }\n%sEND_OF_FILE\n",
      num_outputs, num_outputs, FILENAME, start, text > run
    has_run = 1
  } else if (kind == "" && may_print) {
    name = out "/" page ".expected." num_outputs
    printf "%s", text > name
    close(name)
    printf "awk -f \"$expect\" \"%s\" output.%d || { echo '%s:%d differs'; exit 1; }\n",
      name, num_outputs, FILENAME, start > run
    may_print = 0
  } else {
    may_print = 0
  }
  context = ""
}

BEGIN {
  run = out "/" page ".run"
}

/^<!-- c: / {
  in_context = 1
  sub(/^<!-- c: /, "")
}
in_context {
  in_context = !/-->/
  sub(/ *-->.*/, "")
  context = context $0 "\n"
  next
}
/^```/ {
  if (inside) {
    inside = 0
    end_block()
    next
  }
  inside = 1
  start = FNR
  text = ""
  kind = $1
  sub(/^```/, "", kind)
  word = $2
  next
}
inside { text = text $0 "\n" }
END {
  if (inside) print FILENAME ":" start ": a block does not end"
}
