# SPDX-License-Identifier: Apache-2.0
#
# Makes pages of section 3 of the manual, one per header, of the table of public
# names: lockstep_train.3 of train.h. Prints "PAGE.3 NAME.3" for each name, by
# which `man NAME` is to find the page.
#
# usage: awk -v out=FOLDER -v version=VERSION -v date=DATE
#            -f roff.awk -f man.awk TABLE TABLE

function page_name(header) {
  sub(/\.h$/, "", header)
  return "lockstep_" header
}

# Returns the first sentence of a comment.
function first_sentence(text) {
  if (match(text, /\.( |$)/)) text = substr(text, 1, RSTART - 1)
  return text
}

function end_page() {
  if (file == "") return
  begin_section("SEE ALSO")
  print ".BR lockstep (1)" > file
  close(file)
}

# Prints the names of a page, some per line, and what it is about.
function print_names(header, list, count, i) {
  count = split(names_of[header], list)
  print ".SH NAME" > file
  print escape(page_name(header)) (count > 0 ? "," : "") > file
  for (i = 1; i <= count; ++i) print list[i] (i < count ? "," : "") > file
  print "\\- " escape(first_sentence(substr(brief_of[header], 2))) > file
}

{ tag = substr($0, 1, 1) }

NR == FNR {
  if (tag == "H") {
    header = $2
  } else if (tag == "D" && !(header in is_brief)) {
    if (NF < 2) is_brief[header] = 1
    else brief_of[header] = brief_of[header] " " substr($0, 3)
  } else if (tag == "E") {
    names_of[header] = names_of[header] " " substr($0, 3)
  }
  next
}

tag == "H" {
  end_page()
  header = $2
  name = page_name(header)
  file = out "/" name ".3"
  title = toupper(name)
  print ".TH " title " 3 " date " \"Lockstep " version "\"\n.ad l\n.nh" > file
  print_names(header)
  print ".SH SYNOPSIS\n.nf\n#include <lockstep/" header ">\n.fi" > file
  begin_section("DESCRIPTION")
  next
}
tag == "D" {
  add_comment(substr($0, 3))
  next
}
tag == "S" {
  begin_section(toupper(substr($0, 3)))
  next
}
tag == "E" {
  end_part()
  for (i = 2; i <= NF; ++i) print name ".3", $i ".3"
  next
}
tag == "C" {
  if (part != "code") {
    end_part()
    begin_paragraph(".nf")
    part = "code"
    in_code = 1
  }
  print (in_code ? "\\fB" escape(substr($0, 3)) "\\fR" : escape(substr($0, 3))) > file
  next
}
tag == "T" {
  if (in_code) end_part()
  in_code = 0
  add_comment(substr($0, 3))
}
END { end_page() }
