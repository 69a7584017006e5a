variable @"w" : f32[2] trainable initializer %2
variable @"count" : i64[]
graph build "variables" {
  %1 = constant() {value = f32[2] [1, 2]} # "w/initial" : f32[2]
  %2 = assign(%1) {variable = @"w"} # "w/initializer" : f32[2]
  %3 = read_variable() {variable = @"w"} # "read" : f32[2]
  %4 = assign_add(%3) ^%3 {variable = @"w"} # "assign_add" : f32[2]
}
