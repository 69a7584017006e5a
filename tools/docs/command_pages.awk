# SPDX-License-Identifier: Apache-2.0
#
# Makes pages of section 1 of the manual of the lines of tools/docs/commands:
# lockstep.1, with the overview and the environment, and lockstep-train.1 and so
# on, one per command.
#
# usage: awk -v out=FOLDER -v version=VERSION -v date=DATE
#            -f roff.awk -f command_pages.awk COMMANDS OVERVIEW ENVIRONMENT

function begin_page(name, about) {
  end_page()
  file = out "/" name ".1"
  print ".TH " toupper(name) " 1 " date " \"Lockstep " version "\"\n.ad l" > file
  print ".SH NAME\n" name " \\- " escape(about) > file
}
function end_page() {
  if (file == "") return
  begin_section("SEE ALSO")
  if (file ~ /lockstep\.1$/) {
    for (i = 1; i <= num_pages; ++i)
      print ".BR lockstep\\-" pages[i] " (1)" (i < num_pages ? "," : "") > file
  } else {
    print ".BR lockstep (1)" > file
  }
  close(file)
}

FNR == 1 { ++part_of_input }

part_of_input == 1 && /^P / {
  pages[++num_pages] = $2
  text = substr($0, 3)
  sub(/^[^ ]* /, "", text)
  begin_page("lockstep-" $2, text)
  is_first = 1
  next
}
part_of_input == 1 && /^U / {
  text = substr($0, 3)
  if (is_first) {
    print ".SH SYNOPSIS\n.B lockstep\n" escape(text) > file
    begin_section("DESCRIPTION")
  } else {
    sub(/ [A-Z[].*--estimator$/, " --estimator", text)
    begin_section("lockstep " text)
  }
  is_first = in_flags = 0
  next
}
part_of_input == 1 && /^A/ {
  add_comment(substr($0, 3))
  next
}
part_of_input == 1 && /^F / {
  end_part()
  split(substr($0, 3), flag, "\t")
  if (!in_flags && after_heading == 0) print ".PP\nFlags:" > file
  in_flags = 1
  add_item("--" flag[1] (flag[2] == "" ? "" : " ") flag[2], flag[3])
  next
}

part_of_input == 2 && FNR == 1 {
  begin_page("lockstep", "train models in lock step on many replicas")
  print ".SH SYNOPSIS\n.B lockstep\nCOMMAND [FLAG...]" > file
  next
}
part_of_input == 2 && /^usage: / { next }
part_of_input == 2 && /^[a-z ]+:$/ {
  begin_section(toupper(substr($0, 1, length($0) - 1)))
  next
}
part_of_input == 2 && /^exit codes: / {
  begin_section("EXIT STATUS")
  sub(/^exit codes: /, "")
}
part_of_input == 2 && /^'lockstep help/ { begin_section("HELP") }
part_of_input == 2 {
  add_comment($0)
  next
}
part_of_input == 3 && FNR == 1 { begin_section("ENVIRONMENT") }
part_of_input == 3 && match($0, /^LS_[^ ]*  /) {
  add_item(substr($0, 1, RLENGTH - 2), substr($0, RLENGTH + 1))
  next
}
part_of_input == 3 { add_comment("  " $0) }

END { end_page() }
