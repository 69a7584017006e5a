variable @"unused" : f32[]
variable @"a" : f32[2]
variable @"b" : f32[2]
graph function "f" {
  %1 = read_variable() {variable = @"b"} : f32[2]
  %2 = assign_sub(%1) {variable = @"a"} : f32[2]
  return %2
}
