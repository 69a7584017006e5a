graph build "gaps" {
  %2 = constant() {value = f32[] [1]} : f32[]
  %7 = neg(%2) : f32[]
  %8796093022000 = neg(%7) : f32[]
}
