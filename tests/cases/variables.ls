// Variables are declared before the graph and named in attributes.
==== a variable with its initializer
variable @"w" : f32[2] trainable initializer %2
variable @"count" : i64[]
graph build "variables" {
  %1 = constant() {value = f32[2] [1, 2]} # "w/initial" : f32[2]
  %2 = assign(%1) {variable = @"w"} # "w/initializer" : f32[2]
  %3 = read_variable() {variable = @"w"} # "read" : f32[2]
  %4 = assign_add(%3) ^%3 {variable = @"w"} # "assign_add" : f32[2]
}
---- same
==== rows of a variable are written
variable @"w" : f32[4,2]
graph function "f" {
  %1 = parameter() {dtype = i64, shape = shape[3], index = 0} : i64[3]
  %2 = parameter() {dtype = f32, shape = shape[3,2], index = 1} : f32[3,2]
  %3 = assign_scatter(%1, %2) {variable = @"w", combine = "add"} : f32[4,2]
  return %3
}
---- same
==== two variables of one name
variable @"w" : f32[]
variable @"w"#2 : f32[] trainable
graph build "twice" {
  %1 = read_variable() {variable = @"w"#2} : f32[]
  %2 = read_variable() {variable = @"w"} : f32[]
}
---- same
==== in a function the first that is used comes first
variable @"unused" : f32[]
variable @"a" : f32[2]
variable @"b" : f32[2]
graph function "f" {
  %1 = read_variable() {variable = @"b"} : f32[2]
  %2 = assign_sub(%1) {variable = @"a"} : f32[2]
  return %2
}
---- text
variable @"b" : f32[2]
variable @"a" : f32[2]
graph function "f" {
  %1 = read_variable() {variable = @"b"} : f32[2]
  %2 = assign_sub(%1) {variable = @"a"} : f32[2]
  return %2
}
==== a variable that is not declared
graph build "g" {
  %1 = read_variable() {variable = @"w"} : f32[]
}
---- INVALID_ARGUMENT
line 2: this variable is not declared
==== declared twice
variable @"w" : f32[]
variable @"w" : f32[]
graph build "g" {
}
---- INVALID_ARGUMENT
line 2: variable @"w" is declared twice
==== a shape that is not known
variable @"w" : f32[?]
graph build "g" {
}
---- INVALID_ARGUMENT
line 1: variable @"w" is f32[?]
==== an initializer that is no op
variable @"w" : f32[] initializer %1
graph build "g" {
}
---- INVALID_ARGUMENT
variable @"w": its initializer %1 is no op of a build graph
==== another type than the variable's
variable @"w" : f32[2]
graph build "g" {
  %1 = read_variable() {variable = @"w"} : f32[3]
}
---- INVALID_ARGUMENT
output 0 is f32[3], by the shape rule f32[2]
graph text:3
==== no variable where there must be one
graph build "g" {
  %1 = read_variable() : f32[3]
}
---- INVALID_ARGUMENT
it needs the attribute 'variable', an object
==== collections of variables, ops and values
variable @"w" : f32[] trainable initializer %2
variable @"w"#2 : f32[]
graph build "g" {
  %1 = constant() {value = f32[] [1]} # "one" : f32[]
  %2 = assign(%1) {variable = @"w"} # "w/initializer" : f32[]
  %3 = read_variable() {variable = @"w"} : f32[]
}
collection "variables" = @"w", @"w"#2
collection "a name \"of\" \xf0 all" = op %2, %3, op %3, @"w"#2
---- same
==== a variable of strings
variable @"v" : string[2]
graph build "g" {
}
---- UNIMPLEMENTED
variable 'v' of dtype string: variables must be numbers
==== a variable of variants
variable @"v" : variant[]
graph build "g" {
}
---- UNIMPLEMENTED
variable 'v' of dtype variant: variables must be numbers
