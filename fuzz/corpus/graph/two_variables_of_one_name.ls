variable @"w" : f32[]
variable @"w"#2 : f32[] trainable
graph build "twice" {
  %1 = read_variable() {variable = @"w"#2} : f32[]
  %2 = read_variable() {variable = @"w"} : f32[]
}
