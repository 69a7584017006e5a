// Text that is well formed but breaks a rule of its stage.
==== a type that the op does not give
graph build "g" {
  %1 = constant() {value = f32[2] [1, 2]} : f32[2]
  %2 = add(%1, %1) : f32[3]
}
---- INVALID_ARGUMENT
the graph text breaks a rule: graph 'g', %2, op add at graph text:3: output 0 is f32[3], by the shape rule f32[2]
==== a shape rule that refuses
graph build "g" {
  %1 = constant() {value = f32[2] [1, 2]} : f32[2]
  %2 = constant() {value = f32[3] [1, 2, 3]} : f32[3]
  %3 = add(%1, %2) # "sum" : f32[3]
}
---- INVALID_ARGUMENT
op 'sum' (add) at graph text:4: add of f32[2] and f32[3]: the shapes do not broadcast
==== a number of outputs that the op has not
graph build "g" {
  %1:2 = constant() {value = f32[] [1]} : f32[], f32[]
}
---- INVALID_ARGUMENT
it has 2 outputs, by the shape rule 1
==== a number of inputs that the op has not
graph build "g" {
  %1 = constant() {value = f32[] [1]} : f32[]
  %2 = add(%1) : f32[]
}
---- INVALID_ARGUMENT
add takes 2 operands, got 1
==== an attribute of another kind
graph build "g" {
  %1 = constant() {value = f32[2,2] [1, 2, 3, 4]} : f32[2,2]
  %2 = matmul(%1, %1) {transpose_a = 1} : f32[2,2]
}
---- INVALID_ARGUMENT
attribute 'transpose_a' is an integer, not a bool
==== a product of several transposed matrices by a single one
graph build "g" {
  %1 = constant() {value = f64[1,2,1] [1, 2]} : f64[1,2,1]
  %2 = constant() {value = f64[2,1] [1, 2]} : f64[2,1]
  %3 = matmul(%1, %2) {transpose_a = true} : f64[1,1,1]
}
---- INVALID_ARGUMENT
a transposed x of more than 2 dimensions takes no single matrix: transpose it first
==== sizes of an operand that is not there
graph build "g" {
  %1 = constant() {value = f32[] [1]} : f32[]
  %2 = broadcast(%1) {sizes = sizes[dim(1, 0)]} : f32[2]
}
---- INVALID_ARGUMENT
size 0 of 'sizes' is dimension 0 of operand 1, of 1
==== an op that only building knows in a lowered graph
graph lowered "g" {
  %1 = parameter() {dtype = f32, shape = shape[], index = 0} : f32[]
  %2 = identity(%1) : f32[]
}
---- INVALID_ARGUMENT
lowering should have replaced this op
==== an unknown shape in a lowered graph
graph lowered "g" {
  %1 = parameter() {dtype = f32, shape = shape[?], index = 0} : f32[?]
}
---- INVALID_ARGUMENT
output 0 is f32[?]; lowered shapes are known
==== a name in a lowered graph
graph lowered "g" {
  %1 = parameter() {dtype = f32, shape = shape[], index = 0} # "x" : f32[]
}
---- INVALID_ARGUMENT
a lowered op has a name or a device
==== a control input in a lowered graph
graph lowered "g" {
  %1 = parameter() {dtype = f32, shape = shape[], index = 0} : f32[]
  %2 = neg(%1) ^%1 : f32[]
}
---- INVALID_ARGUMENT
a lowered op has control inputs
==== a lowered region in a build graph
graph build "g" {
  %1 = call() (graph lowered "f" {
  })
}
---- INVALID_ARGUMENT
only a lowered graph has lowered regions
==== a parameter in a build graph
graph build "g" {
  %1 = parameter() {dtype = f32, shape = shape[], index = 0} : f32[]
}
---- INVALID_ARGUMENT
a build graph has no parameters
==== results of a build graph
graph build "g" {
  %1 = constant() {value = f32[] [1]} : f32[]
  return %1
}
---- INVALID_ARGUMENT
a build graph has no results
==== parameters out of order
graph function "f" {
  %1 = parameter() {dtype = f32, shape = shape[], index = 1} : f32[]
}
---- INVALID_ARGUMENT
parameter 0, %1, has index 1
==== a mark of lowered ops
graph build "g" {
  %1 = no_op() varying
}
---- INVALID_ARGUMENT
only a lowered op is marked as varying
==== regions where there are none
graph build "g" {
  %1 = no_op() (graph region "r" {
  })
}
---- INVALID_ARGUMENT
it needs no regions and has 1
==== a loop without a body
graph build "g" {
  %1 = while() {num_carried = 0} (graph region "c" loop {
    %1 = constant() {value = bool[] [false]} : bool[]
    return %1
  })
}
---- INVALID_ARGUMENT
while needs 2 child graphs, got 1
==== a loop whose body takes another number of values
graph build "g" {
  %1 = constant() {value = f32[] [1]} : f32[]
  %2 = while(%1) {num_carried = 1} (graph region "c" loop {
    %1 = parameter() {dtype = f32, shape = shape[], index = 0} : f32[]
    %2 = constant() {value = bool[] [false]} : bool[]
    return %2
  }, graph region "b" loop {
    %1 = constant() {value = f32[] [1]} : f32[]
    return %1
  }) : f32[]
}
---- INVALID_ARGUMENT
while: 1 values are carried and 0 are saved, the body takes 0 and returns 1
==== a branch without its capture's input
graph build "g" {
  %1 = constant() {value = bool[] [true]} : bool[]
  %2 = cond(%1) (graph region "then" {
    %1 = parameter() {dtype = bool, shape = shape[], index = 0} captures (%1) : bool[]
    return %1
  }, graph region "else" {
    %1 = constant() {value = bool[] [true]} : bool[]
    return %1
  }) : bool[]
}
---- INVALID_ARGUMENT
cond: a predicate, 1 and 0 captures against 1 operands
==== an argument of another type
graph build "g" {
  %1 = constant() {value = i32[] [1]} : i32[]
  %2 = call(%1) (graph function "f" {
    %1 = parameter() {dtype = f32, shape = shape[], index = 0} : f32[]
    return %1
  }) : f32[]
}
---- INVALID_ARGUMENT
input 0 is i32[], parameter 0 of region 0 is f32[]
==== a rule broken within a region
graph build "g" {
  %1 = call() (graph function "f" {
    %1 = constant() {value = f32[] [1]} : i32[]
  })
}
---- INVALID_ARGUMENT
graph 'f', %1, op constant at graph text:3: output 0 is i32[], by the shape rule f32[]
==== a call passes the value that its function captures
graph build "g" {
  %1 = constant() {value = f32[] [1]} : f32[]
  %2 = constant() {value = f32[] [2]} : f32[]
  %3 = call(%2) (graph function "f" {
    %1 = parameter() {dtype = f32, shape = shape[], index = 0} captures (%1) : f32[]
    return %1
  }) : f32[]
}
---- INVALID_ARGUMENT
input 0 is no value that capture 0 of region 0 takes
==== a branch captures an operand of its op
graph build "g" {
  %1 = constant() {value = f32[] [1]} : f32[]
  %2 = constant() {value = f32[] [2]} : f32[]
  %3 = constant() {value = bool[] [true]} : bool[]
  %4 = cond(%3, %2, %2) (graph region "a" {
    %1 = parameter() {dtype = f32, shape = shape[], index = 0} captures (%2) : f32[]
    return %1
  }, graph region "b" {
    %1 = parameter() {dtype = f32, shape = shape[], index = 0} captures (%1) : f32[]
    return %1
  }) : f32[]
}
---- INVALID_ARGUMENT
input 2 is no value that capture 0 of region 1 takes
==== a branch captures no value of a graph that is not shown
graph build "g" {
  %1 = constant() {value = f32[] [1]} : f32[]
  %2 = constant() {value = bool[] [true]} : bool[]
  %3 = cond(%2, %1) (graph region "a" {
    %1 = parameter() {dtype = f32, shape = shape[], index = 0} captures (outer %1) : f32[]
    return %1
  }, graph region "b" {
    %1 = constant() {value = f32[] [3]} : f32[]
    return %1
  }) : f32[]
}
---- INVALID_ARGUMENT
input 1 is no value that capture 0 of region 0 takes
