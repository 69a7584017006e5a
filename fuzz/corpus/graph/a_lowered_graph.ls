graph lowered "program" {
  %1 = parameter() {dtype = f32, shape = shape[4], index = 0} : f32[4]
  %2:2 = replicate(%1, %1) {replicas = 2, num_split = 0, num_gathered = 1} (graph lowered "replica" {
    %1 = parameter() {dtype = f32, shape = shape[4], index = 0} captures (%1) : f32[4]
    %2 = replica_id() varying : i32[]
    %3 = convert(%2) {dtype = f32} varying : f32[]
    %4 = mul(%1, %3) varying : f32[4]
    return %4
  }) : f32[4], f32[4]
  return %2:0, %2:1
}
---- INVALID_ARGUMENT
its regions take 1 inputs with their captures, it has 2
==== a lowered graph whose counts agree
graph lowered "program" {
  %1 = parameter() {dtype = f32, shape = shape[4], index = 0} : f32[4]
  %2:2 = replicate(%1) {replicas = 2, num_split = 0, num_gathered = 1} (graph lowered "replica" {
    %1 = parameter() {dtype = f32, shape = shape[4], index = 0} captures (%1) : f32[4]
    %2 = replica_id() varying : i32[]
    %3 = convert(%2) {dtype = f32} varying : f32[]
    %4 = mul(%1, %3) varying : f32[4]
    return %4
  }) : f32[4], f32[4]
  return %2:0, %2:1
}
