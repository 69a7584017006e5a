variable @"w" : f32[] trainable initializer %2
variable @"w"#2 : f32[]
graph build "g" {
  %1 = constant() {value = f32[] [1]} # "one" : f32[]
  %2 = assign(%1) {variable = @"w"} # "w/initializer" : f32[]
  %3 = read_variable() {variable = @"w"} : f32[]
}
collection "variables" = @"w", @"w"#2
collection "a name \"of\" \xf0 all" = op %2, %3, op %3, @"w"#2
