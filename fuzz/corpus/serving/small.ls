// {"format":"lockstep serving program","version":1,"tags":["serve"],"signatures":[{"key":"k","kind":"regression","inputs":[{"name":"x","tensor":"x:0"}],"outputs":[{"name":"value","tensor":"y:0"}]}]}
variable @"w" : f32[3]
graph build "g" {
  %1 = placeholder() {dtype = f32, shape = shape[?,3]} # "x" : f32[?,3]
  %2 = read_variable() {variable = @"w"} # "read" : f32[3]
  %3 = mul(%1, %2) # "mul" : f32[?,3]
  %4 = reduce_mean(%3) {axes = [1]} # "y" : f32[?]
}
