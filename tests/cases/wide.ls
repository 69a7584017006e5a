// Wide values: those of all replicas as one value of the graph around.
==== from one replicate op to the next, around a loop and to the host
graph lowered "wide" {
  %1 = parameter() {dtype = f32, shape = shape[2], index = 0} : f32[2]
  %2:4 = replicate(%1, %1) {replicas = 2, num_split = 1, num_gathered = 1, num_wide_gathered = 1} (graph lowered "first" {
    %1 = parameter() {dtype = f32, shape = shape[2], index = 0} varying : f32[2]
    %2 = neg(%1) varying : f32[2]
    %3 = all_reduce(%2) {reduce = "sum"} : f32[2]
    return %1, %2, %3
  }) : f32[2], f32[2], f32[2,2], f32[2]
  %3 = while(%2:2) {num_carried = 1, max_trips = 3} (graph lowered "condition" loop {
    %1 = parameter() {dtype = f32, shape = shape[2,2], index = 0} : f32[2,2]
    %2 = constant() {value = bool[] [true]} : bool[]
    return %2
  }, graph lowered "body" loop {
    %1 = parameter() {dtype = f32, shape = shape[2,2], index = 0} : f32[2,2]
    %2 = replicate(%1) {replicas = 2, num_wide_split = 1, num_wide_gathered = 1} (graph lowered "segment" {
      %1 = parameter() {dtype = f32, shape = shape[2], index = 0} varying : f32[2]
      %2 = exp(%1) varying : f32[2]
      return %2
    }) : f32[2,2]
    return %2
  }) : f32[2,2]
  %4 = host(%3) {kernel = kernel "echo", replicas = 2, wide = [0]} : f32[2,2]
  %5 = host(%1) {kernel = kernel "echo", replicas = 2} : f32[2,2]
  %6:2 = replicate(%1, %1, %4, %5, %2:3) {replicas = 2, num_split = 1, num_wide_split = 2, num_gathered = 1} (graph lowered "last" {
    %1 = parameter() {dtype = f32, shape = shape[2], index = 0} varying : f32[2]
    %2 = parameter() {dtype = f32, shape = shape[2], index = 1} varying : f32[2]
    %3 = parameter() {dtype = f32, shape = shape[2], index = 2} varying : f32[2]
    %4 = parameter() {dtype = f32, shape = shape[2], index = 3} captures (%2:3) : f32[2]
    %5 = add(%1, %2) varying : f32[2]
    %6 = add(%5, %3) varying : f32[2]
    %7 = add(%6, %4) varying : f32[2]
    return %7
  }) : f32[2], f32[2]
  return %6:0, %6:1
}
---- same
==== a wide argument of another number of replicas
graph lowered "wide" {
  %1 = parameter() {dtype = f32, shape = shape[3,2], index = 0} : f32[3,2]
  %2 = replicate(%1) {replicas = 2, num_wide_split = 1, num_wide_gathered = 1} (graph lowered "r" {
    %1 = parameter() {dtype = f32, shape = shape[2], index = 0} varying : f32[2]
    return %1
  }) : f32[2,2]
  return %2
}
---- INVALID_ARGUMENT
wide input 0 is f32[3,2], parameter 0 of 2 replicas is f32[2]
==== a wide argument that the region does not declare
graph lowered "wide" {
  %1 = parameter() {dtype = f32, shape = shape[2,2], index = 0} : f32[2,2]
  %2 = replicate(%1) {replicas = 2, num_wide_split = 1} (graph lowered "r" {
    %1 = constant() {value = f32[] [1]} : f32[]
    return %1
  }) : f32[]
  return %2
}
---- INVALID_ARGUMENT
replicate: body 0 takes 0 split arguments of 1 and returns 1 values
==== more wide results than there are
graph lowered "wide" {
  %1 = parameter() {dtype = f32, shape = shape[2,2], index = 0} : f32[2,2]
  %2 = replicate(%1) {replicas = 2, num_wide_split = 1, num_wide_gathered = 2} (graph lowered "r" {
    %1 = parameter() {dtype = f32, shape = shape[2], index = 0} varying : f32[2]
    return %1
  }) : f32[2,2]
  return %2
}
---- INVALID_ARGUMENT
returns 1 values, 2 of them for each replica
==== a wide result of another type
graph lowered "wide" {
  %1 = parameter() {dtype = f32, shape = shape[2,2], index = 0} : f32[2,2]
  %2 = replicate(%1) {replicas = 2, num_wide_split = 1, num_wide_gathered = 1} (graph lowered "r" {
    %1 = parameter() {dtype = f32, shape = shape[2], index = 0} varying : f32[2]
    return %1
  }) : f32[2]
  return %2
}
---- INVALID_ARGUMENT
output 0 is f32[2], by the shape rule f32[2,2]
==== a value of all dimensions that there are cannot be wide
graph lowered "wide" {
  %1 = parameter() {dtype = f32, shape = shape[1,1,1,1,1,1,1,2], index = 0} : f32[1,1,1,1,1,1,1,2]
  %2 = replicate(%1) {replicas = 2, num_wide_gathered = 1} (graph lowered "r" {
    %1 = parameter() {dtype = f32, shape = shape[1,1,1,1,1,1,1,2], index = 0} captures (%1) : f32[1,1,1,1,1,1,1,2]
    return %1
  }) : f32[1,1,1,1,1,1,1,2]
  return %2
}
---- INVALID_ARGUMENT
a wide value of f32[1,1,1,1,1,1,1,2] would have 9 dimensions; at most 8 are possible
replicate: result 0
==== a stack cannot be wide
graph lowered "wide" {
  %1 = replicate() {replicas = 2, num_wide_gathered = 1} (graph lowered "r" {
    %1 = stack_new() {dtype = f32, shape = shape[2]} varying : variant[]
    return %1
  }) : variant[2]
  return %1
}
---- INVALID_ARGUMENT
a wide value of variant: elements must be numbers or strings
replicate: result 0
==== wide values of replicas of several classes
graph lowered "wide" {
  %1 = parameter() {dtype = f32, shape = shape[2,2], index = 0} : f32[2,2]
  %2 = replicate(%1) {replicas = 2, num_wide_split = 1, num_wide_gathered = 1, classes = [0, 1]} (graph lowered "r" {
    %1 = parameter() {dtype = f32, shape = shape[2], index = 0} varying : f32[2]
    return %1
  }, graph lowered "s" {
    %1 = parameter() {dtype = f32, shape = shape[2], index = 0} varying : f32[2]
    return %1
  }) : f32[2,2]
  return %2
}
---- INVALID_ARGUMENT
1 arguments and 1 results are wide, of replicas of several classes
==== wide values before lowering
graph build "wide" {
  %1 = constant() {value = f32[2,2] [1, 2, 3, 4]} # "a" : f32[2,2]
  %2 = replicate(%1) {replicas = 2, num_wide_split = 1} # "b" (graph region "r" {
    %1 = parameter() {dtype = f32, shape = shape[2], index = 0} # "x" : f32[2]
    return %1
  }) : f32[2]
}
---- INVALID_ARGUMENT
only lowering makes wide values
==== calls of all replicas before lowering
graph build "host" {
  %1 = constant() {value = f32[2] [1, 2]} # "a" : f32[2]
  %2 = host(%1) {kernel = kernel "echo", replicas = 2, wide = [0]} # "b" : f32[2]
}
---- INVALID_ARGUMENT
only lowering makes calls of all replicas
==== a call of all replicas in the body of one
graph lowered "host" {
  %1 = parameter() {dtype = f32, shape = shape[2], index = 0} : f32[2]
  %2:2 = replicate(%1, %1) {replicas = 2, num_split = 1, num_gathered = 1} (graph lowered "r" {
    %1 = parameter() {dtype = f32, shape = shape[], index = 0} varying : f32[]
    %2 = host(%1) {kernel = kernel "echo", replicas = 2} varying : f32[2]
    return %2
  }) : f32[2], f32[2]
  return %2
}
---- INVALID_ARGUMENT
region 0 has a host call of all replicas
==== a wide operand of the host has a part for each replica
graph lowered "host" {
  %1 = parameter() {dtype = f32, shape = shape[3], index = 0} : f32[3]
  %2 = host(%1) {kernel = kernel "echo", replicas = 2, wide = [0]} : f32[2]
  return %2
}
---- INVALID_ARGUMENT
f32[3] is no wide value of 2 replicas
host: operand 0
==== a wide operand of the host is no scalar
graph lowered "host" {
  %1 = parameter() {dtype = f32, shape = shape[], index = 0} : f32[]
  %2 = host(%1) {kernel = kernel "echo", replicas = 2, wide = [0]} : f32[2]
  return %2
}
---- INVALID_ARGUMENT
f32[] is no wide value of 2 replicas
host: operand 0
==== a wide operand of the host that there is not
graph lowered "host" {
  %1 = parameter() {dtype = f32, shape = shape[2], index = 0} : f32[2]
  %2 = host(%1) {kernel = kernel "echo", replicas = 2, wide = [1]} : f32[2]
  return %2
}
---- INVALID_ARGUMENT
'wide' must be ascending numbers of its 1 operands
==== wide operands of the host in another order
graph lowered "host" {
  %1 = parameter() {dtype = f32, shape = shape[2], index = 0} : f32[2]
  %2 = host(%1) {kernel = kernel "echo", replicas = 2, wide = [0, 0]} : f32[2]
  return %2
}
---- INVALID_ARGUMENT
'wide' must be ascending numbers of its 1 operands
==== wide operands of a call that is not of all replicas
graph lowered "host" {
  %1 = parameter() {dtype = f32, shape = shape[2], index = 0} : f32[2]
  %2 = host(%1) {kernel = kernel "echo", wide = [0]} : f32[2]
  return %2
}
---- INVALID_ARGUMENT
'wide' goes with 'replicas'
